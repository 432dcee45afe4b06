# SPDX-License-Identifier: Apache-2.0
"""Says which GPUs, driver and NVIDIA libraries this machine has. Run as a program, it prints them as JSON, so that a crash of a library ends only
that program."""
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig

LIBRARIES = {
    "cuBLASLt": (["libcublasLt.so.13", "libcublasLt.so.12"], "cublasLtGetVersion"),
    "cuDNN": (["libcudnn_graph.so.9"], "cudnnGetVersion"),
    "NCCL": (["libnccl.so.2"], "ncclGetVersion"),
}


def library_folders():
    """Returns the value of KERF_CUDA_LIBRARIES: the user's own, else the folders of this Python's NVIDIA packages."""
    given = os.environ.get("KERF_CUDA_LIBRARIES")
    if given:
        return ":".join(os.path.abspath(folder) for folder in given.split(":") if folder)
    site = {sysconfig.get_paths()[key] for key in ("purelib", "platlib")}
    return ":".join(folder for place in sorted(site) for folder in sorted(glob.glob(os.path.join(place, "nvidia", "*", "lib"))))


def load(names):
    """Returns a loaded library and where it lies, or two empty values."""
    for name in names:
        for folder in [*library_folders().split(":"), ""]:
            path = os.path.join(folder, name)
            if folder and not os.path.exists(path):
                continue
            try:
                return ctypes.CDLL(path), path
            except OSError:
                pass
    return None, ""


def driver():
    library, _ = load(["libcuda.so.1"])
    if not library:
        return {"gpus": [], "driver": "not found"}
    if status := library.cuInit(0):
        return {"gpus": [], "driver": f"found, but cuInit fails with {status}"}
    version, count, gpus = ctypes.c_int(), ctypes.c_int(), []
    library.cuDriverGetVersion(ctypes.byref(version))
    library.cuDeviceGetCount(ctypes.byref(count))
    for ordinal in range(count.value):
        name, device, size = ctypes.create_string_buffer(256), ctypes.c_int(), ctypes.c_size_t()
        library.cuDeviceGet(ctypes.byref(device), ordinal)
        library.cuDeviceGetName(name, 256, device)
        library.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        gpus.append({"name": name.value.decode(), "bytes": size.value})
    return {"gpus": gpus, "driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"}


def version_of(names, function):
    library, path = load(names)
    if not library:
        return "not found"
    if function == "ncclGetVersion":
        number = ctypes.c_int()
        library.ncclGetVersion(ctypes.byref(number))
        return f"{number.value} ({path})"
    call = getattr(library, function)
    call.restype = ctypes.c_size_t
    return f"{call()} ({path})"


def clocks():
    """Returns what nvidia-smi says of the first GPU, or a text that says why not."""
    if not shutil.which("nvidia-smi"):
        return "no nvidia-smi"
    keys = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,temperature.gpu"
    done = subprocess.run(["nvidia-smi", "-i", "0", f"--query-gpu={keys}", "--format=csv,noheader"], capture_output=True, text=True, timeout=30)
    if done.returncode:
        return f"nvidia-smi ends with {done.returncode}"
    return ", ".join(f"{key} {value.strip()}" for key, value in zip(keys.split(","), done.stdout.split(",")))


def main():
    if sys.argv[1:] == ["driver"]:
        print(json.dumps(driver()))
    else:
        print(json.dumps(version_of(*LIBRARIES[sys.argv[1]])))


if __name__ == "__main__":
    main()
