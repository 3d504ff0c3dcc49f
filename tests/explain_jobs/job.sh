# A job script as a scheduler runs it.
echo "starting"
python hog.py 2000
status=$?
echo "exit status $status"
exit $status
