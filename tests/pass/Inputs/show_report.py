"""Prints the pass's report in words, a line per fact, for FileCheck."""
import json
import sys


def place(thing):
    return f"{thing.get('file', '')}:{thing['line']}" if "line" in thing else "nowhere"


decoder = json.JSONDecoder()
text = open(sys.argv[1]).read()
while text.strip():
    report, end = decoder.raw_decode(text)
    text = text[end:].lstrip()
    print(f"module {report['source']} version {report['version']}")
    for reason in report.get("module_reasons", []):
        print(f"  open: {reason['code']}: {reason['text']}")
    for kernel in report.get("kernels", []):
        codes = " ".join(reason["code"] for reason in kernel.get("reasons", []))
        print(f"kernel {kernel['kernel']}: {kernel['parts']} {codes}".rstrip())
    for task in report["tasks"]:
        print(f"task {task['id']} {task['kind']} in {task['function']}")
        if task.get("for_others"):
            print("  for others")
        for thing in task["objects"]:
            kind = " variable" if thing.get("variable") else ""
            print(f"  object {thing['id']} {thing['name']}: {thing['bytes']}{kind}")
        for op in task["ops"]:
            objects = ",".join(str(one) for one in op.get("objects", []))
            print(f"  op {op['op']} {op.get('kernel', '')} [{objects}] {place(op)}")
        for name, formula in task.get("need", {}).items():
            print(f"  {name}: {formula}")
        if task.get("movable", {}).get("movable"):
            print("  movable")
        for reason in task.get("movable", {}).get("reasons", []):
            print(f"  anchored: {reason['text']} ({place(reason)})")
        for reason in task.get("alone", []):
            print(f"  alone: {reason['text']} ({place(reason)})")
        if "deadline" in task:
            print(f"  deadline: {task['deadline']}")
        if "begin" in task:
            print(f"  begin {place(task['begin'])}")
        for end in task.get("ends", []):
            print(f"  end {place(end)}")
        for reason in task.get("reasons", []):
            print(f"  why {reason['code']}: {reason['text']} ({place(reason)})")
