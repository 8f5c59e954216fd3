# Runs the lines of the file `lines`, and tells which of them did not end as they should.
count=0 bad=0
while IFS= read -r line <&9; do
    case "$line" in '' | '#'*) continue ;; esac
    count=$((count + 1))
    eval "${line#!}" >out 2>&1 </dev/null
    status=$?
    case "$line" in
        # A signal is no refusal; stock `rados` ends with 256 minus the errno.
        '!'*) [ $status -ne 0 ] && { [ $status -lt 128 ] || [ $status -gt 200 ]; } ;;
        *) [ $status -eq 0 ] ;;
    esac || {
        bad=$((bad + 1))
        echo "status $status: $line"
        head -5 out
    }
done 9<lines
echo "$count lines"
[ $bad -eq 0 ]
