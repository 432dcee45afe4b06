#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/shaped-network.sh: ranks behind links of a given rate, and the bytes that codecs send over them. Namespaces need root: without it, the tests skip."""
import argparse
import os
import subprocess
import sys
import unittest

from support import ROOT, KerfTest, main

SCRIPT = os.path.join(ROOT, "scripts", "shaped-network.sh")
sys.path.insert(0, os.path.join(ROOT, "benchmarks", "compression"))


def works():
    """Returns whether this user can make network namespaces and shape their links."""
    return os.geteuid() == 0 and subprocess.run([SCRIPT, "--ranks", "2", "--rate", "1gbit", "--", "true"], capture_output=True).returncode == 0


def is_running(namespace):
    """Returns whether the script that made the namespace kerf<process>-<rank> or kerf<process>hub still runs: another test may use it at the same time."""
    process = namespace.split()[0].removeprefix("kerf").split("-")[0].removesuffix("hub")
    return os.path.exists(f"/proc/{process}")


class ShapedNetwork(KerfTest):
    def run_script(self, *args):
        return subprocess.run([SCRIPT, *map(str, args)], capture_output=True, text=True, timeout=60)

    def test_wrong_options_are_refused(self):
        for args in (["--ranks", "one", "--", "true"], ["--speed", "1", "--", "true"], ["--islands", "3", "--", "true"], []):
            self.assertEqual(self.run_script(*args).returncode, 1, args)

    @unittest.skipUnless(works(), "network namespaces need root, ip and tc")
    def test_each_rank_has_a_place_and_nothing_stays(self):
        # One write for each rank, because two ranks share standard error.
        script = ("import os; place = [os.environ[name] for name in ('RANK', 'WORLD_SIZE', 'MASTER_ADDR')]; os.write(1, (' '.join(place) + chr(10)).encode()); "
                  "raise SystemExit(7 if place[0] == '1' else 0)")
        done = self.run_script("--ranks", 3, "--bytes", self.path("bytes"), "--", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(done.stdout.split(), ["0", "3", "10.77.0.1"])
        self.assertEqual(sorted(line.split()[0] for line in done.stderr.splitlines() if "10.77" in line), ["1", "2"])
        self.assertEqual(len(self.read("bytes").split()), 3)
        names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        self.assertFalse([line for line in names.splitlines() if line.startswith("kerf") and not is_running(line)], names)

    @unittest.skipUnless(works(), "network namespaces need root, ip and tc")
    def test_only_the_link_between_islands_is_slow(self):
        # Rank 0 sends 2 MB to its neighbour and then to rank 2, which is on the other island: 0.3 s at 50 Mbit/s, of which a burst of 256 KiB passes at once.
        script = """
import os, socket, time
rank = int(os.environ["RANK"])
if rank in (1, 2):
    listener = socket.create_server(("", 5000))
    other = listener.accept()[0]
    while other.recv(65536):
        pass
    other.sendall(b"x")
if rank == 0:
    for to in (1, 2):
        while True:
            try:
                other = socket.create_connection((f"10.77.0.{to + 1}", 5000))
                break
            except OSError:
                time.sleep(0.05)
        start = time.monotonic()
        other.sendall(bytes(2_000_000))
        other.shutdown(socket.SHUT_WR)
        other.recv(1)
        print(time.monotonic() - start)
"""
        done = self.run_script("--ranks", 4, "--rate", "10gbit", "--islands", 2, "--between", "50mbit", "--", sys.executable, "-c", script)
        self.assertEqual(done.returncode, 0, done.stderr)
        inside, between = map(float, done.stdout.split())
        self.assertGreaterEqual(between, 0.25, done.stdout)
        self.assertLess(inside, between / 2, done.stdout)

    @unittest.skipUnless(works(), "network namespaces need root, ip and tc")
    def test_codecs_send_the_bytes_of_their_payloads(self):
        import network
        options = argparse.Namespace(rate="200mbit", mebibytes=1, ranks=4, steps=2, codecs=["none", "int8", "onebit"])
        lines = network.measure(options)
        plain = lines["none"][0]
        # A ring, or the two stages of an all-reduce, sends 2 (N - 1) / N of the gradient; TCP and Ethernet add some percent.
        self.assertTrue(1 <= plain / (2 * 3 / 4 * 2 ** 20) <= 1.1, lines)
        self.assertGreaterEqual(plain / lines["int8"][0], 3.7, lines)
        self.assertGreaterEqual(plain / lines["onebit"][0], 20, lines)  # 32 KiB a rank, of which acknowledgements are a part
        # 1.5 MiB at 200 Mbit/s take 63 ms, of which the burst of 256 KiB passes at once.
        self.assertGreaterEqual(lines["none"][1], 0.04, lines)


if __name__ == "__main__":
    main()
