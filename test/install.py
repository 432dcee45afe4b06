# SPDX-License-Identifier: Apache-2.0
"""Installs a build, and builds and runs examples/embedding against the installed tree: install.py BUILD_FOLDER."""
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def run(*command):
    """Returns what a command prints; a command that fails ends the test with its output."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def main(build):
    with tempfile.TemporaryDirectory() as folder:
        prefix, own = os.path.join(folder, "prefix"), os.path.join(folder, "own")
        run("cmake", "--install", build, "--prefix", prefix)
        # The installed programs start, and all of them have the version of CMakeLists.txt.
        with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
            version = re.search(r"project\(kerf VERSION ([0-9.]+)", file.read())[1]
        for program in ("kerf", "kerf-run", "kerf-profile"):
            said = run(os.path.join(prefix, "bin", program), "--version").strip()
            assert said == version, f"{program} --version prints {said}, but CMakeLists.txt has {version}"
        with open(os.path.join(ROOT, "python", "kerf", "__init__.py")) as file:
            said = re.search(r'^__version__ = "([0-9.]+)"$', file.read(), re.MULTILINE)[1]
        assert said == version, f"kerf.__version__ is {said}, but CMakeLists.txt has {version}"
        # Nothing in the installed package names a folder of the checkout or of the build.
        package = os.path.join(prefix, "lib", "cmake", "Kerf")
        for name in os.listdir(package):
            with open(os.path.join(package, name)) as file:
                text = file.read()
            assert ROOT not in text and os.path.realpath(build) not in text, f"{name} names a folder of the checkout"
        run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "examples", "embedding"), "-B", own, f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", own)
        gpt2 = os.path.join(ROOT, "examples", "gpt2")
        said = run(os.path.join(own, "train-a-step"), os.path.join(gpt2, "model.onnx"), os.path.join(gpt2, "batches.npz"))
        # The loss of the first step, before any update, is PyTorch's.
        with open(os.path.join(gpt2, "golden.json")) as file:
            expected = json.load(file)["losses"]["sgd"]["float32"][0]
        loss = float(re.search(r"step 0  loss ([0-9.]+)", said)[1])
        assert abs(loss - expected) < 1e-4 * expected, f"loss {loss}, but PyTorch has {expected}"
        # A project that asks for a later version is refused.
        later = os.path.join(folder, "later")
        os.mkdir(later)
        with open(os.path.join(later, "CMakeLists.txt"), "w") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(later LANGUAGES C CXX)\nfind_package(Kerf 99.0 REQUIRED)\n")
        refused = subprocess.run(["cmake", "-G", "Ninja", "-S", later, "-B", later, f"-DCMAKE_PREFIX_PATH={prefix}"], capture_output=True, text=True)
        assert refused.returncode != 0 and f"version: {version}" in refused.stderr, refused.stderr
        print(said.strip())


main(sys.argv[1])
