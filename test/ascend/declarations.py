#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Kerf's own declarations of CANN's functions (lib/Runtime/Ascend) with what is published, as far as it is at hand:

    declarations.py                    with the stand-ins (test/standins/cann), and with the two below where they are found
    declarations.py --table FILE       operators with a page that lists their first calls: "- `aclnnAdd(const aclTensor *self, ...)` ..."
    declarations.py --headers FOLDER   AscendCL and HCCL with the headers of the Python package torch-npu (its folder `include`)

It prints a line for each difference; the exit status is 1 where there is any."""
import argparse
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("KERF_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))
DEVICE = os.path.join(ROOT, "lib", "Runtime", "Ascend")
# The first calls of operators that the page of --table does not list.
MORE = os.path.join(ROOT, "test", "ascend", "operators.md")
OF_KIND = {"In": "aclTensor*", "MaybeIn": "aclTensor*", "Out": "aclTensor*", "MaybeOut": "aclTensor*", "InOut": "aclTensor*", "Scalar": "aclScalar*",
           "Ints": "aclIntArray*", "Bools": "aclBoolArray*", "Bool": "bool", "Int": "int64_t", "Int32": "int", "Int8": "int8_t", "Uint": "uint64_t",
           "Type": "int", "Double": "double", "Text": "char*"}
INTEGERS = {"int32_t": "int", "aclDataType": "int", "aclError": "int", "aclnnStatus": "int"}
POINTERS = {"aclrtStream", "aclrtEvent", "aclrtContext", "aclmdlRI", "HcclComm", "aclrtHostFunc", "AclStream", "AclEvent", "AclContext", "AclModel",
            "HcclCommunicator", "AclHostFunction"}


def text_of(*path):
    with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
        return file.read()


def type_of(parameter, keeps_name=False):
    """The type of a parameter, without its name and without const: "const aclTensor *self" gives "aclTensor*"."""
    parameter = re.sub(r"/\*.*?\*/|\bconst\b|\bstruct\b", " ", parameter).strip()
    match = re.match(r"(\w+)\s*((?:\*\s*)*)", parameter)
    base, stars = match[1], match[2].replace(" ", "")
    return INTEGERS.get(base, base) + stars if not stars else base + stars


def width_of(name):
    """How a C function takes a value of this type: all pointers alike, and enumerations as int."""
    if name.endswith("*") or name in POINTERS:
        return "pointer"
    if re.fullmatch(r"(u?int\d+_t|int|size_t|bool|double|float)", name):
        return {"int32_t": "int", "size_t": "uint64_t", "uint32_t": "uint32_t"}.get(name, name)
    return "HcclConfigValue" if name in ("HcclConfigValue", "HcclValue") else "int"


def parameters(text):
    text = text.strip()
    return [] if text in ("", "void") else [type_of(one) for one in text.split(",")]


def operators():
    """The records of Operators.h: {name: types of the arguments}."""
    body = text_of(DEVICE, "Operators.h").replace("\\\n", " ")
    found = {}
    for name, kinds in re.findall(r"KERF_OPERATOR\((\w+),[^,()]*,([^()]*)\)", body):
        found["aclnn" + name] = [OF_KIND[kind.strip()] for kind in kinds.split(",")]
    return found


def differences(what, ours, theirs):
    return [f"{name}: Kerf passes ({', '.join(ours[name])}), {what} takes ({', '.join(theirs[name])})"
            for name in ours if name in theirs and ours[name] != theirs[name]]


def with_standins(ours):
    theirs = {}
    for file in glob.glob(os.path.join(ROOT, "test", "standins", "cann", "Ops*.cpp")):
        body = text_of(file)
        for name, given in re.findall(r"^KERF_OPERATOR\((aclnn\w+),(.*?)\)\s*\{", body, re.S | re.M):
            theirs[name] = parameters(given)
        for name in re.findall(r"^KERF_UNARY\((\w+)", body, re.M):
            theirs[name] = ["aclTensor*"] * 2
        for name in re.findall(r"^KERF_BINARY\((\w+)", body, re.M):
            theirs[name] = ["aclTensor*"] * 3
    return differences("the stand-in", ours, theirs) + [f"{name}: no stand-in has it" for name in sorted(set(ours) - set(theirs))]


def with_table(ours, path):
    """Without a path: with MORE alone, which lists some operators."""
    theirs = {}
    for file in filter(None, (MORE, path)):
        theirs |= {name: parameters(given) for name, given in re.findall(r"`(aclnn\w+)\((.*?)\)`", text_of(file))}
    missing = [f"{name}: neither {path} nor {MORE} lists it" for name in sorted(set(ours) - set(theirs))] if path else []
    return differences("the page", ours, theirs) + missing


def with_headers(folder):
    text = "\n".join(text_of(file) for pattern in ("acl/*.h", "third_party/hccl/inc/hccl/*.h")
                     for file in sorted(glob.glob(os.path.join(folder, pattern))))
    theirs = {name: [width_of(one) for one in parameters(given)] for name, given in
              re.findall(r"\b(?:aclError|HcclResult|char\s*\*)\s*(\w+)\s*\(([^()]*)\)\s*;", re.sub(r"//[^\n]*", "", text))}
    found, count = [], 0
    for file, macro in (("Acl.h", "KERF_ACL"), ("Hccl.h", "KERF_HCCL")):
        for name, given in re.findall(macro + r"\(\w+, \"(\w+)\"((?:,[^()]*)?)\)", text_of(DEVICE, file).replace("\\\n", " ")):
            ours = [width_of(one) for one in parameters(given.lstrip(","))]
            if name.startswith("acl") and not name.startswith(("aclrt", "aclsys", "aclmdl", "aclInit", "aclGetDevice")):
                continue  # the package has no header of these
            count += 1
            if name not in theirs:
                found.append(f"{name}: the headers do not have it")
            elif ours != theirs[name]:
                found.append(f"{name}: Kerf passes ({', '.join(ours)}), the headers take ({', '.join(theirs[name])})")
    return found, count


def numbers(folder):
    """Compiles numbers.cpp, whose assertions compare enumerations and structures with those of the headers. Returns what the compiler says; None
    without a compiler."""
    compiler = os.environ.get("CXX") or shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        return None
    places = [os.path.join(ROOT, "include"), folder, os.path.join(folder, "third_party", "hccl", "inc")]
    done = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", *(f"-I{place}" for place in places), os.path.join(ROOT, "test", "ascend", "numbers.cpp")],
                          capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error" in line] + ([] if done.returncode == 0 else ["numbers.cpp is not compiled"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default=os.path.join(SHARED, "design", "ascend.md"))
    package = importlib.util.find_spec("torch_npu")
    parser.add_argument("--headers", default=os.path.join(os.path.dirname(package.origin), "include") if package else None)
    given = parser.parse_args()
    ours = operators()
    if len(ours) < 50:
        sys.exit(f"{len(ours)} operators were read from Operators.h, and there are more than 50: this script must follow its form")
    found, compared = with_standins(ours), [f"{len(ours)} operators with the stand-ins"]
    there = os.path.exists(given.table)
    found += with_table(ours, given.table if there else None)
    compared.append(f"with {given.table} and {MORE}" if there else f"with {MORE}")
    if given.headers:
        more, count = with_headers(given.headers)
        found += more
        wrong = numbers(given.headers)
        found += wrong or []
        compared.append(f"{count} functions of AscendCL and HCCL{'' if wrong is None else ', numbers and structures'} with {given.headers}")
    print("\n".join(found + ["compared: " + "; ".join(compared)]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
