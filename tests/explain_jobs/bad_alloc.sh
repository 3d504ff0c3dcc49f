c++ -O1 -o "$WORK/extract" bad_alloc.cpp
ulimit -v 100000
"$WORK/extract" --out features.bin
exit $?
