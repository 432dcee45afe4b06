#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reports as text, JSON and HTML: the same rows in all, and pages as a real browser sees them: nothing fetched, no script run, nothing
wider than a laptop's screen. The browser's tests are skipped where there is no Chromium."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import unittest

from support import CLUSTERS, KerfTest, file_of, main

GPT = {"model_type": "gpt2", "n_layer": 8, "n_embd": 1024, "n_head": 16, "n_inner": 4096, "vocab_size": 8192, "n_positions": 256}
CLUSTER = os.path.join(CLUSTERS, "dgx-a100.json")
JOB = ("--dtype", "bf16", "--optimizer", "adamw", "--sequence", 256)
EVIL = "<script>document.title='evil'</script><img src=x onerror=alert(1)>"
SECTIONS = ["summary", "mesh", "breakdown", "timeline", "memory", "collectives", "operators", "alternatives"]
OP_SECTIONS = ["summary", "mesh", "memory", "collectives", "operators", "alternatives", "trained"]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(html.parser.HTMLParser):
    """Tags must match; keeps rows of each section's first tables, and every attribute that could fetch something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.sections, self.rows, self.fetched, self.tags = [], [], {}, [], set()
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster") and not value.startswith("#"):
                self.fetched.append((tag, name, value))
            assert not name.startswith("on"), (tag, name)
        if tag == "section":
            self.sections.append(dict(attributes)["id"])
        if tag == "tr" and "tbody" in self.open and ("class", "group") not in attributes:
            self.rows[self.sections[-1]] = self.rows.get(self.sections[-1], 0) + 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()


class Pages(KerfTest):
    """Reports to look at."""

    def plan(self, name, *more):
        """The report of one search in a form; the search finds the same plan every time."""
        self.succeed("plan", self.write("config.json", GPT), "--cluster", CLUSTER, "--ranks", 16, *JOB, "--global-batch", 32, "--report",
                     self.path(name), *more)
        return self.read(name).decode()

    def staged(self, name, stages=4, **more):
        plan = {"kerf": 1, "mesh": {"stage": stages, "data": 2, "model": 2}, "global_batch": 128, "microbatch": 1, "recompute": "full", **more}
        self.succeed("simulate", self.write("config.json", GPT), "--cluster", CLUSTER, "--plan", self.write("plan.json", plan), *JOB,
                     "--report", self.path(name))
        return self.read(name).decode()

    def evil(self, name):
        with open(CLUSTER) as file:
            cluster = json.load(file)
        cluster["name"], cluster["device"]["name"] = EVIL, "A100" + EVIL
        os.makedirs(self.path("a<b>&\"'"))
        model = self.write("a<b>&\"'/config.json", GPT)
        self.succeed("simulate", model, "--cluster", self.write("c.json", cluster), "--ranks", 4, "--global-batch", 8, *JOB, "--report",
                     self.path(name))
        return self.read(name).decode()

    def op_by_op(self, name):
        self.succeed("plan", file_of("gpt2"), "--ranks", 4, "--all-ranks", "--report", self.path(name))
        return self.read(name).decode()

    def deep(self, name):
        plan = {"kerf": 1, "mesh": {"stage": 64, "data": 1, "model": 2}, "global_batch": 1024, "microbatch": 1}
        self.succeed("simulate", self.write("deep.json", dict(GPT, n_layer=64)), "--cluster", CLUSTER, "--plan", self.write("p.json", plan),
                     *JOB, "--report", self.path(name))
        return self.read(name).decode()


class Report(Pages):
    def test_all_forms_tell_the_same(self):
        page, data, text = Page(self.plan("r.html")), json.loads(self.plan("r.json")), self.plan("r.txt")
        self.assertEqual(page.sections, SECTIONS)
        self.assertEqual(page.rows["collectives"], len(data["collectives"]))
        self.assertEqual(page.rows["operators"], len(data["operators"]))
        self.assertEqual(page.rows["alternatives"], 1 + len(data["alternatives"]))
        self.assertGreater(len(data["alternatives"]), 1)
        for row in data["collectives"] + data["operators"]:
            self.assertIn(row.get("cause", row.get("name")), text)
        self.assertEqual(data["gap"], max(0, 1 - data["lower_bound_seconds"] / data["step_seconds"]))
        self.assertEqual(data["plan"]["predicted"]["step_seconds"], data["step_seconds"])
        parts = data["breakdown"]
        self.assertAlmostEqual(parts["forward"] + parts["backward"] + parts["recompute"] + parts["optimizer"] + parts["bubble"] +
                               sum(parts["exposed"].values()), data["step_seconds"], delta=0.02 * data["step_seconds"])

    def test_numbers_are_those_of_simulate(self):
        data = json.loads(self.staged("r.json"))
        done = self.succeed("simulate", self.path("config.json"), "--cluster", CLUSTER, "--plan", self.path("plan.json"), *JOB, "--json")
        for key, value in json.loads(done.stdout).items():
            self.assertEqual(data[key], value, key)
        self.assertEqual([place["axis"] for place in data["mesh"]], ["stage", "data", "model"])
        self.assertEqual([place["nodes"] for place in data["mesh"]], [2, 1, 1])
        # Each stage's memory over time reaches its peak.
        for stage, memory in enumerate(data["memory"]):
            most = max(e["device_bytes"] for e in data["timeline"]["events"] if e["stage"] == stage and "device_bytes" in e)
            self.assertAlmostEqual(most, memory["device_bytes"], delta=1)
        # Layers are cut by the model axis, and said so.
        self.assertIn("model: ", " ".join(row["cuts"] for row in data["operators"] if row["segment"] == "layer"))

    def test_pages_are_the_same_bytes(self):
        self.assertEqual(self.staged("a.html"), self.staged("b.html"))
        self.assertEqual(self.plan("c.html"), self.plan("d.html"))

    def test_names_are_no_markup(self):
        text = self.evil("r.html")
        self.assertFalse(Page(text).tags & {"script", "img", "b"})
        self.assertIn("&lt;script&gt;", text)

    def test_page_of_a_plan_op_by_op(self):
        page, data = Page(self.op_by_op("r.html")), json.loads(self.op_by_op("r.json"))
        self.assertEqual(page.sections, OP_SECTIONS)
        self.assertEqual(page.rows["operators"], len(data["strategies"]))
        self.assertEqual(page.rows.get("collectives", 0), len(data["collectives"]))
        self.assertLess(len(self.read("r.html")), 400_000)

    def test_long_pipelines_stay_light(self):
        text = self.deep("r.html")
        self.assertLess(len(text), 1_000_000)
        self.assertIn("is left out", text)
        self.assertIn("16 of 64 stages are drawn", text)

    def test_bad_folder(self):
        self.refuse(1, ["nowhere"], "simulate", self.write("config.json", GPT), "--cluster", CLUSTER, "--ranks", 4, *JOB, "--report",
                    self.path("nowhere/r.html"))


@unittest.skipIf(BROWSER is None, "no Chromium: pages are not opened in a browser")
class Browser(Pages):
    def browse(self, *flags):
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files",
                               f"--user-data-dir={self.path('profile')}", "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr",
                               "--v=0", *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        return done.stdout, said

    def look(self, name, sections):
        page = Page(self.read(name).decode())
        self.assertEqual(page.fetched, [])
        self.assertNotRegex(self.read(name).decode(), r"https?:|url\(|@import")
        dom, said = self.browse("--dump-dom", "file://" + self.path(name))
        self.assertEqual(said, [])
        seen = Page(dom)
        self.assertEqual(seen.sections, sections)
        self.assertEqual(seen.rows, page.rows)
        self.assertNotIn("evil", re.search(r"<title>(.*?)</title>", dom, re.S).group(1))
        # On a laptop's screen and on a narrow one nothing is cut off, but tables scroll by themselves.
        for width in (1366, 800):
            frame = self.write("frame.html", f"""<!DOCTYPE html><iframe id=f src="{name}" width={width} height=768></iframe><pre id=o></pre>
<script>onload = () => {{ let d = document.getElementById("f").contentDocument, e = d.documentElement;
  let out = [...d.querySelectorAll("svg text")].filter(t => {{ let b = t.getBoundingClientRect(), s = t.ownerSVGElement.getBoundingClientRect();
    return b.width > 0 && (b.right > s.right + 1 || b.left < s.left - 1); }}).map(t => t.textContent);
  document.getElementById("o").textContent = JSON.stringify([e.scrollWidth, e.clientWidth, d.querySelectorAll("svg").length, out]); }};</script>""")
            dom, _ = self.browse("--dump-dom", "--window-size=1500,900", "file://" + frame)
            scroll, client, drawings, outside = json.loads(re.search(r"<pre id=\"o\">(.*?)</pre>", dom, re.S).group(1))
            self.assertLessEqual(scroll, client, width)
            self.assertGreater(drawings, 1)
            self.assertEqual(outside, [])
        self.browse(f"--print-to-pdf={self.path('r.pdf')}", "file://" + self.path(name))
        self.assertTrue(self.read("r.pdf").startswith(b"%PDF"))
        self.browse("--window-size=1366,768", f"--screenshot={self.path('r.png')}", "file://" + self.path(name))
        self.assertGreater(len(self.read("r.png")), 20_000)

    def test_whole_plan(self):
        self.plan("r.html")
        self.look("r.html", SECTIONS)

    def test_pipeline(self):
        self.staged("r.html")
        self.look("r.html", SECTIONS)

    def test_markup_in_names(self):
        self.evil("r.html")
        self.look("r.html", SECTIONS)

    def test_op_by_op(self):
        self.op_by_op("r.html")
        self.look("r.html", OP_SECTIONS)

    def test_long_pipeline(self):
        self.deep("r.html")
        self.look("r.html", SECTIONS)


if __name__ == "__main__":
    main()
