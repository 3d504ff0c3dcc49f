# The same with what the kernel wrote about it.
before=$(dmesg | wc -l)
python hog.py 2000
echo "exit status $?"
dmesg | tail -n +$((before + 1))
