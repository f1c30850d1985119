"""The compiler that the makefiles see: turns nvcc's spellings into clang's, runs one of the two compilers, and keeps a
record of what it ran. Both compilers get the same words, so that they differ in nothing but themselves.

compare.py installs it as `nvcc`, `g++` and more in a folder of tools. What it needs to know is in the environment variable
COMPARE, as JSON: `compiler` (the words that run it), `nvcc` (whether it takes nvcc's words), `cuda` (the toolkit),
`libraries`, `arch`, `flags`, `headers`, `record` (a file).
"""

import json
import os
import resource
import subprocess
import sys
import time

# nvcc's options without a meaning for clang: alone, with a value in the next word, or begun by one of these.
DROPPED = {"--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--expt-extended-lambda", "-expt-extended-lambda",
           "--extended-lambda", "-extended-lambda", "-lineinfo", "--generate-line-info", "-G", "--device-debug",
           "-res-usage", "--resource-usage", "-m64", "-Wno-deprecated-gpu-targets", "--Wno-deprecated-gpu-targets",
           "--dlink-time-opt", "-dlto", "-keep", "--keep", "-Wno-unused-result", "--restrict", "-restrict"}
DROPPED_WITH_VALUE = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code", "-Xptxas",
                      "--ptxas-options", "-maxrregcount", "--maxrregcount", "-ccbin", "--compiler-bindir", "-cudart",
                      "--cudart", "-Xnvlink", "--nvlink-options", "-t", "--threads", "-diag-suppress",
                      "--diag-suppress", "-Xcudafe", "-Xfatbin", "--keep-dir", "-arch-list"}
CHOOSES_GPU = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code"}
TO_COMPILER = {"-Xcompiler", "--compiler-options"}
TO_LINKER = {"-Xlinker", "--linker-options"}
RENAMED = {"--use_fast_math": ["-ffast-math"], "-use_fast_math": ["-ffast-math"], "--fmad=false": ["-ffp-contract=off"],
           "-fmad=false": ["-ffp-contract=off"], "--std": ["-std"], "-rdc=true": ["-fgpu-rdc"],
           "--relocatable-device-code=true": ["-fgpu-rdc"], "-rdc=false": [], "-dc": ["-c", "-fgpu-rdc"],
           "--device-c": ["-c", "-fgpu-rdc"], "--compile": ["-c"], "--shared": ["-shared"], "--optimize": ["-O2"],
           "-c++": [], "--debug": ["-g"]}
# What the headers ask for to give every thread a default stream of its own.
DEFAULT_STREAM = {"per-thread": ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"], "legacy": []}
SOURCES = (".cu", ".c", ".cc", ".cpp", ".cxx", ".C", ".s", ".S")
# What begins a job that neither compiles nor links.
ASKED = {"-E", "-M", "-MM", "--version", "-V", "-###", "-dlink", "--device-link"}


def translate(words):
    """nvcc's words as clang's."""
    out = []
    i = 0
    while i < len(words):
        word = words[i]
        name, equals, value = word.partition("=")
        i += 1
        if word in RENAMED:
            out += RENAMED[word]
        elif word in DROPPED:
            pass
        elif name in TO_COMPILER | TO_LINKER | DROPPED_WITH_VALUE:
            if not equals:
                value = words[i] if i < len(words) else ""
                i += 1
            parts = [part for part in value.strip("\"'").replace(" ", ",").split(",") if part]
            if name in TO_COMPILER:
                out += parts
            elif name in TO_LINKER:
                out.append(",".join(["-Wl", *parts]))
        elif word == "-x" and words[i:i + 1] == ["cu"]:
            out += ["-x", "cuda"]
            i += 1
        elif name.lstrip("-") == "default-stream":
            if not equals:
                value = words[i] if i < len(words) else ""
                i += 1
            out += DEFAULT_STREAM.get(value, [word])
        elif word in ("-std", "--std") and i < len(words):
            out.append("-std=" + words[i])
            i += 1
        elif word.startswith("--std="):
            out.append(word[1:])
        else:
            out.append(word)
    return out


def for_nvcc(words, settings):
    """nvcc's words as they are, but for the architecture."""
    out = []
    words = iter(words)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in CHOOSES_GPU:
            if not equals:
                next(words, None)
        else:
            out.append(word)
    compiles = any(word.endswith(SOURCES) for word in out)
    is_cuda = any(word.endswith(".cu") for word in out) or "cu" in out
    return [*settings["compiler"], f"-arch={settings['arch']}", *out, *settings["flags"]], compiles, is_cuda


def is_plain_job(words):
    """Whether this only asks the compiler something."""
    return not words or any(word in ASKED for word in words)


def command(words, settings):
    """The whole command line."""
    cuda = settings["cuda"]
    inputs = [word for word in words if not word.startswith("-")]
    compiles = any(word.endswith(SOURCES) for word in inputs)
    is_cuda = any(word.endswith(".cu") for word in inputs) or "cuda" in words
    line = [*settings["compiler"], "-Wno-unused-command-line-argument", "-w"]
    if is_cuda and compiles:
        line += [f"--cuda-path={cuda}", f"--cuda-gpu-arch={settings['arch']}", "-Wno-unknown-cuda-version"]
    line += words
    if "-fgpu-rdc" in words and not compiles:
        line += ["--offload-link", f"--cuda-path={cuda}"]
    line += settings["flags"]
    if compiles:
        for folder in ("include", "include/cccl"):
            line += ["-idirafter", f"{cuda}/{folder}"]
        for folder in settings["headers"]:
            line += ["-idirafter", folder]
    if "-c" not in words and "-S" not in words:
        # What nvcc links without being asked.
        runtime = settings["libraries"]
        plain = "-lcudart" if os.path.exists(f"{runtime}/libcudart.so") else "-l:libcudart.so.13"
        line += [f"-L{runtime}", plain, "-lstdc++", "-lm", "-lpthread", "-ldl", "-lrt"]
    return line, compiles, is_cuda


def output(words):
    """The file that is written."""
    for i, word in enumerate(words):
        if word == "-o" and i + 1 < len(words):
            return words[i + 1]
        if word.startswith("-o") and len(word) > 2:
            return word[2:]
    if "-c" in words:
        sources = [word for word in words if word.endswith(SOURCES)]
        return os.path.splitext(os.path.basename(sources[0]))[0] + ".o" if sources else None
    return "a.out"


def main():
    settings = json.loads(os.environ["COMPARE"])
    words = sys.argv[1:] if settings["nvcc"] else translate(sys.argv[1:])
    if is_plain_job(words) and not settings["nvcc"]:
        sys.exit(subprocess.call([*settings["compiler"], *[word for word in words if word != "-dlink"]]))
    line, compiles, is_cuda = (for_nvcc if settings["nvcc"] else command)(words, settings)
    start = time.monotonic()
    done = subprocess.run(line, stderr=subprocess.PIPE, errors="replace")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    sys.stderr.write(done.stderr)
    written = output(words)
    entry = {"compiles": compiles, "cuda": is_cuda, "rc": done.returncode, "wall_s": time.monotonic() - start,
             "cpu_s": used.ru_utime + used.ru_stime, "output": written and os.path.abspath(written)}
    with open(settings["record"], "a", encoding="utf-8") as record:
        record.write(json.dumps(entry) + "\n")
    sys.exit(done.returncode if done.returncode >= 0 else 128 - done.returncode)


if __name__ == "__main__":
    main()
