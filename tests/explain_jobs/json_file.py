"""Runs a command and writes its output as Docker's json-file logs have it: a JSON object for each line, with stream and time."""

import datetime
import json
import subprocess
import sys
import threading


def pump(stream, name):
    for line in stream:
        now = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
        print(json.dumps({"log": line, "stream": name, "time": now}), flush=True)


process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
pumps = [threading.Thread(target=pump, args=(process.stdout, "stdout")), threading.Thread(target=pump, args=(process.stderr, "stderr"))]
for each in pumps:
    each.start()
for each in pumps:
    each.join()
sys.exit(process.wait())
