#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong usage gets one message: what is wrong, where, and the way out. And docs/messages.md quotes what kerf really says."""
import json
import os
import re
import shlex
import shutil
import struct
import sys
import unittest

from support import CLUSTERS, ROOT, KerfTest, file_of, kerf, main, read_npz, write_npz

UPDATE = "--update" in sys.argv  # docs/messages.md is written anew
if UPDATE:
    sys.argv.remove("--update")
PAGE = os.path.join(ROOT, "docs", "messages.md")
A100 = os.path.join(CLUSTERS, "dgx-a100.json")
LLAMA70 = {"model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8,
           "intermediate_size": 28672, "vocab_size": 128256}
# What no message may hold.
FORBIDDEN = {"a number of more than 20 digits": r"\d{21}", "NaN or infinity": r"\b-?(nan|inf)\b", "no size at all": r"\b0\.00 [KMGT]iB", "a null text": r"\(null\)",
             "a name of the implementation": r"std::|0x[0-9a-f]{6}|#\d+ 0x|kerf::|mlir::|llvm::", "an empty quotation": r"''|\"\"", "a wrong plural": r"\b1 (ranks|stages|steps|bytes|layers)\b",
             "IR": r"%arg\d|tensor<", "two spaces": r"\S  \S", "a mark after a question": r"\?[;,.]"}
# name: (command, status, pattern of the message). Words in braces are files of the folder that `files` fills.
CASES = {
    # ---- the command line
    "no command": ("", 1, r"no command was given; the commands are train, import, .*verify"),
    "unknown command": ("trian {model}", 1, r"kerf has no command 'trian'; it has train, import, .*verify; did you mean 'train'\? `kerf --help`"),
    "unknown option of kerf": ("--modle {model}", 1, r"kerf has no option '--modle'; an option stands after one of the commands"),
    "unknown option": ("train {model} --data {data} --stesp 3", 1, r"kerf train has no option '--stesp'.*kerf train --help"),
    "too many arguments": ("train {model} {model} --data {data}", 1, r"kerf train does not take '.*model.onnx'"),
    "no model": ("train --data {data}", 1, r"MODEL is missing; give the model, or --plan"),
    "no data": ("train {model}", 1, r"kerf train needs --data"),
    "option without its value": ("train {model} --data {data} --lr", 1, r"--lr has no value; give one after it"),
    "option given twice": ("train {model} --data {data} --lr 1 --lr 2", 1, r"--lr is given 2 times; give it once"),
    "a margin of all memory": ("plan {model} --margin 1.5", 1, r"--margin: '1.5' is not a number from 0 to 0.99"),
    "an evaluation every half step": ("train {model} --data {data} --eval-every 0.5", 1, r"--eval-every: '0.5' is not a whole number of 1 or more"),
    "a word for a number": ("train {model} --data {data} --lr fast", 1, r"--lr: 'fast' is not a finite number of 0 or more"),
    "a word for a whole number": ("plan {config} --global-batch many", 1, r"--global-batch: 'many' is not a whole number"),
    "a fraction for a whole number": ("train {model} --data {data} --steps 1.5", 1, r"--steps: '1.5' is not a whole number"),
    "no steps": ("train {model} --data {data} --steps 0", 1, r"--steps: '0' is not a whole number of 1 or more"),
    "too many steps": ("train {model} --data {data} --steps 99999999999999999999", 1, r"--steps: '9+' is not a whole number"),
    "no ranks": ("train {model} --data {data} --ranks 0", 1, r"--ranks: '0' is not a whole number from 1 to 16777216"),
    "too many ranks": ("train {model} --data {data} --ranks 5000", 1, r"5000 ranks on this machine; give --ranks from 1 to \d+"),
    "negative memory": ("plan {model} --memory -1", 1, r"--memory: '-1' is not a number of bytes such as 85899345920, 80GiB"),
    "memory in an unknown unit": ("plan {model} --memory 3furlongs", 1, r"--memory: '3furlongs' is not a number of bytes"),
    "infinite budget": ("plan {model} --budget inf_", 1, r"--budget: 'inf_' is not a finite number"),
    "no threads": ("train {model} --data {data} --threads 0", 1, r"--threads: '0' is not a whole number from 1 to 1024"),
    "unknown optimizer": ("train {model} --data {data} --optimizer adamm", 1, r"--optimizer is 'adamm'; it has to be one of sgd, adam, adamw, onebit-adam, zero-one-adam, adagrad, lion, lamb, adafactor, muon"),
    "unknown type": ("simulate {config} --dtype f12", 1, r"--dtype is 'f12'; it has to be one of f32, f64, bf16"),
    "unknown target": ("export {config} --plan {plan} --to megatrn", 1, r"--to is 'megatrn'; it has to be one of megatron"),
    "link that is none": ("train {model} --data {data} --emulate-link 3", 1, r"--emulate-link: '3' is not BYTES_PER_SECOND .*such as 1e9,5e-5"),
    "loss scale without its type": ("train {model} --data {data} --loss-scale dynamic", 1, r"--loss-scale is for --dtype bf16, f16 and f8; --dtype is f32"),
    "negative clip norm": ("train {model} --data {data} --clip-norm -1", 1, r"--clip-norm is -1; it must be 0 or more"),
    "momentum above one": ("train {model} --data {data} --momentum 2", 1, r"--momentum is 2; it must be 0 or more and less than 1"),
    "pattern that matches nothing": ("train {model} --data {data} --frozen zzz*", 1, r"--frozen 'zzz\*' matches none of the model's \d+ initializers; 'kerf import' lists them"),
    "loss that is not there": ("import {model} --loss nothing", 1, r"the loss 'nothing' .*the outputs are: "),
    "several ranks alone": ("plan {model} --mode stand-alone --ranks 2", 1, r"--mode stand-alone uses one rank, but --ranks is 2; leave one of the two out"),
    # ---- model files
    "model that does not exist": ("import nowhere.onnx", 1, r"cannot open 'nowhere.onnx': No such file"),
    "model without a name": ("import \"\"", 1, r"MODEL is empty; give a .onnx file"),
    "folder for a model": ("import {folder}", 1, r"'.*folder' is a folder, not a model file; give a .onnx file"),
    "folder with a configuration": ("import {hub}", 1, r"is a folder, not a model file; give '.*hub/config.json'"),
    "weights of PyTorch for a model": ("import model.pt", 1, r"'model.pt' has no graph that Kerf can read; export the model to ONNX"),
    "data for a model": ("import {data}", 1, r"is not a model file that Kerf reads; give a .onnx file, a config.json"),
    "empty model": ("import {empty_onnx}", 1, r"'.*empty.onnx'.*"),
    "text for a model": ("import {text_onnx}", 1, r"'.*text.onnx'.*"),
    "configuration that is no JSON": ("import {broken}", 1, r"broken.json', line 1, column 12: not JSON"),
    "configuration without a type": ("import {empty_object}", 1, r"the key model_type is missing; supported are: gpt2"),
    "family that is not known": ("import {unheard}", 1, r"model_type 'unheard' is not known; supported are: gpt2.*export it to ONNX"),
    "sizes that do not fit": ("import {seven_heads}", 1, r"7 heads do not divide the hidden size 768"),
    "size that is a text": ("import {text_size}", 1, r"n_layer is \"twelve\", but an integer from 1 to 1024 is needed"),
    "more tokens than positions": ("import {config} --sequence 4096", 1, r"--sequence is 4096, but the model has 1024 positions"),
    "more experts for a token than there are": ("import {experts}", 1, r"num_experts_per_tok is 9, but there are 8 experts"),
    # ---- data and weights
    "data that do not exist": ("train {model} --data nowhere.npz", 1, r"nowhere.npz"),
    "folder without data": ("train {model} --data {folder}", 1, r"no .npy file in '.*folder'"),
    "model for data": ("train {model} --data {model}", 1, r"cannot read tensors from '.*model.onnx'; give a .safetensors or .npz file"),
    "input that is missing": ("train {model} --data {no_labels}", 1, r"'labels'"),
    "wrong shape": ("train {model} --data {wrong_shape}", 1, r"'x'.*37"),
    "wrong type": ("train {model} --data {wrong_type}", 1, r"'labels'.*f64"),
    "label out of range": ("train {model} --data {wrong_label} --steps 1", 1, r"label 11.*\[0, 11\)"),
    "weights of another model": ("train {model} --data {data} --weights {data}", 1, r"--weights '.*' has none of the model's tensors"),
    "weights that do not exist": ("train {model} --data {data} --weights nowhere.npz", 1, r"nowhere.npz"),
    "configuration without weights": ("train {config} --data {data}", 1, r"model.safetensors.*--weights.*--seed"),
    # ---- clusters
    "cluster that does not exist": ("plan {model} --cluster dgx-a100", 1, r"'dgx-a100'.*clusters/dgx-a100.json"),
    "folder for a cluster": ("plan {model} --cluster {folder}", 1, r"'.*folder': not a regular file"),
    "plan for a cluster": ("plan {model} --cluster {plan}", 1, r"unknown key \"kerf\"; known are name, device"),
    "cluster with too few ranks": ("plan {model} --cluster {cluster} --ranks 500", 1, r"has 128 ranks, but 500 are requested; give --ranks from 1 to 128"),
    "bandwidth below zero": ("plan {model} --cluster {no_bandwidth}", 1, r"bandwidth.*-1"),
    # ---- plans
    "plan that does not exist": ("simulate {config} --plan nowhere.json", 1, r"nowhere.json"),
    "model for a plan": ("simulate {config} --plan {model}", 1, r"model.onnx, line 1, column 1: not JSON"),
    "configuration for a plan": ("simulate {config} --plan {config}", 1, r"unknown key \"model_type\" \(line 1, column 2\); known are kerf, mesh"),
    "plan that ends early": ("simulate {config} --plan {broken}", 1, r"broken.json"),
    "text for a size of the mesh": ("simulate {config} --plan {text_mesh}", 1, r"mesh.stage is \"2\"; it has to be an integer"),
    "unknown recomputation": ("simulate {config} --cluster {cluster} --plan {unknown_word}", 1, r"recompute is \"some\"; it has to be \"none\" or \"selective\""),
    "batch that groups cannot share": ("simulate {config} --cluster {cluster} --ranks 9 --global-batch 8", 1, r"global_batch 8 is not a multiple of the 9 model replicas; change mesh.data or global_batch"),
    "mesh larger than the machine": ("simulate {config} --cluster {cluster} --plan {large_mesh}", 1, r"its mesh has 4096 ranks, .* has 128"),
    "stages of a model without layers": ("train {model} --data {data} --plan {stages}", 1, r"mesh.stage is 2, and no repeated layer .*until"),
    "stages of a model without layers, simulated": ("simulate {model} --plan {stages} --cluster {cluster}", 1, r"mesh.stage is 2, and no repeated layer .*until"),
    "layers beyond the last": ("simulate {config} --cluster {cluster} --plan {many_layers} --global-batch 8", 1, r"many_layers.json: .*12"),
    "schedule that is not there": ("simulate {config} --plan {no_schedule}", 1, r"schedule.name is \"sometimes\""),
    "axis that is none": ("train {model} --data {data} --plan {microbatch_axis}", 1, r"mesh.microbatch"),
    "export of a stage that no plan has": ("verify {config} --plan {thirty_stages} --global-batch 30", 1, r"12 layers.*30 stages|30 stages.*12 layers"),
    "explain of what is no plan": ("explain {stages}", 1, r"stages.json.*`kerf plan -o`"),
    # ---- packages and files to write
    "package that does not exist": ("run nowhere --data {data}", 1, r"'nowhere' is no package: .*program.json.*kerf compile"),
    "model for a package": ("run {model} --data {data}", 1, r"is no package.*kerf compile"),
    "package of a folder": ("run {folder} --data {data}", 1, r"'.*folder' is no package"),
    "plan below a file": ("plan {model} -o {model}/plan.json", 1, r"cannot write '.*plan.json'"),
    "weights into a folder that is not there": ("train {model} --data {data} --steps 1 --save {folder}/no/w.safetensors", 1, r"cannot write '.*w.safetensors': No such file"),
    "package over a file": ("compile {model} -o {data}", 1, r"cannot create the folder '.*data.npz'"),
    "cluster file into a folder that is not there": ("profile -o {folder}/no/c.json", 1, r"the folder '.*no' does not exist"),
    "device that is not measured": ("profile -o c.json --device tpu", 1, r"--device is .tpu.; it has to be one of cpu, cuda, ascend"),
    "device without its library": ("profile -o c.json --device ascend", 2, r"AscendCL.*cannot be loaded.*KERF_ASCEND_LIBRARIES"),
    "checkpoint that is not there": ("train {model} --data {data} --resume {folder}", 1, r"checkpoint: '.*folder' holds none"),
    # ---- problems
    "problem that does not exist": ("solve nowhere.json", 1, r"cannot read 'nowhere.json'"),
    "plan for a problem": ("solve {plan}", 1, r"has no key \"problem\""),
    # ---- nothing fits
    "placement that does not fit": ("plan {model} --memory 1000 --ranks 2", 2, r"no plan for 2 ranks fits into 1000 B .*parameters .*activations .*--memory \d+"),
    "one rank that does not hold it": ("plan {model} --memory 1000", 2, r"no plan for 1 rank fits into 1000 B .*parameters .*--memory \d+"),
}


def files(test):
    """Name -> path; writes what is made for this test."""
    arrays = read_npz(file_of("mlp", "batches.npz"))
    labels, x = arrays["labels"], arrays["x"]
    spoiled = bytearray(labels[2])
    struct.pack_into("<q", spoiled, 0, 11)  # there are 11 classes
    with open(A100) as file:
        wrong = json.load(file)
    wrong["levels"][0]["bandwidth"] = -1
    os.mkdir(test.path("folder"))
    os.mkdir(test.path("hub"))
    mesh = lambda **more: {"kerf": 1, "mesh": {"data": 1}, **more}
    paths = {"folder": test.path("folder"), "hub": test.path("hub"), "cluster": A100, "model": shutil.copy(file_of("mlp"), test.path("model.onnx")),
             "data": shutil.copy(file_of("mlp", "batches.npz"), test.path("data.npz")),
             "no_labels": write_npz(test.path("no_labels.npz"), {"x": x}),
             "wrong_shape": write_npz(test.path("wrong_shape.npz"), dict(arrays, x=(x[0], [20, 37, 13], x[2]))),
             "wrong_type": write_npz(test.path("wrong_type.npz"), dict(arrays, labels=("<f8", labels[1], labels[2]))),
             "wrong_label": write_npz(test.path("wrong_label.npz"), dict(arrays, labels=(labels[0], labels[1], bytes(spoiled)))),
             "empty_onnx": test.write("empty.onnx", b""), "text_onnx": test.write("text.onnx", "this is no model\n"), "broken": test.write("broken.json", "{\"kerf\": 1,"),
             "no_bandwidth": test.write("no_bandwidth.json", wrong), "empty_object": test.write("empty_object.json", {})}
    test.write("hub/config.json", {"model_type": "gpt2"})
    for name, content in {
            "config": {"model_type": "gpt2"}, "unheard": {"model_type": "unheard"}, "seven_heads": {"model_type": "gpt2", "n_head": 7},
            "text_size": {"model_type": "gpt2", "n_layer": "twelve"}, "experts": {"model_type": "mixtral", "num_experts_per_tok": 9},
            "llama70": LLAMA70, "plan": mesh(), "stages": {"kerf": 1, "mesh": {"stage": 2, "data": 1}}, "text_mesh": {"kerf": 1, "mesh": {"stage": "2"}},
            "unknown_word": mesh(recompute="some"), "large_mesh": {"kerf": 1, "mesh": {"data": 4096}},
            "many_layers": mesh(stages=[{"layers": [0, 40]}]), "no_schedule": mesh(schedule={"name": "sometimes"}),
            "microbatch_axis": {"kerf": 1, "mesh": {"microbatch": 2}}, "thirty_stages": {"kerf": 1, "mesh": {"stage": 30, "data": 1}}}.items():
        paths[name] = test.write(f"{name}.json", content)
    return paths


class Messages(KerfTest):
    def message(self, done, what):
        """The one message of a failed command, without "error: "."""
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(lines), 1, f"{what}\n{done.stderr[-2000:]}")
        self.assertEqual(done.stdout, "", what)
        self.assertEqual(done.stderr.rstrip("\n").splitlines()[-1], lines[0], f"{what}: the message is one line, the last one")
        return lines[0][len("error: "):]

    def check_form(self, message, what):
        self.assertGreater(len(message.split()), 3, what)
        self.assertFalse(re.match(r"\s*[:;,]", message), f"{what}: begins with nothing: {message}")
        self.assertLess(len(message), 1200, what)
        for name, pattern in FORBIDDEN.items():
            self.assertIsNone(re.search(pattern, message), f"{what}: {name} in: {message}")

    def test_every_wrong_usage(self):
        paths = files(self)
        for name, (command, status, pattern) in CASES.items():
            with self.subTest(name):
                done = kerf(*(word.format(**paths) for word in shlex.split(command)), cwd=self.folder)
                said = f"kerf {command}\n{done.stderr[-1500:]}"
                self.assertEqual(done.returncode, status, said)
                message = self.message(done, said)
                self.check_form(message, said)
                self.assertRegex(message, pattern, said)

    def test_infeasible_says_what_takes_the_memory(self):
        paths = files(self)
        done = kerf("plan", paths["llama70"], "--cluster", A100, "--ranks", 8, "--global-batch", 8, "--sequence", 2048, "--dtype", "bf16", "--optimizer", "adamw",
                    "--budget", 1, timeout=600)
        self.assertEqual(done.returncode, 2, done.stderr)
        message = self.message(done, done.stderr)
        self.check_form(message, message)
        for word in ("weights", "gradients", "optimizer states", "GiB", "ranks"):
            self.assertIn(word, message)

    def test_the_page_quotes_what_is_said(self):
        """Every command of docs/messages.md says what stands below it. With --update the page is written anew."""
        for name, source in (("model.onnx", file_of("mlp")), ("batches.npz", file_of("mlp", "batches.npz"))):
            shutil.copy(source, self.path(name))
        os.symlink(CLUSTERS, self.path("clusters"))
        self.write("config.json", {"model_type": "gpt2"})
        with open(PAGE) as file:
            old = file.read()
        new = re.sub(r"(```console\n)(.*?)(```\n)", lambda block: block[1] + self.said(block[2]) + block[3], old, flags=re.S)
        if UPDATE:
            with open(PAGE, "w") as file:
                file.write(new)
        self.assertEqual(new, old)

    def said(self, block):
        """The commands of a block with what they say now."""
        lines = []
        for line in block.splitlines():
            if not line.startswith("$ "):
                continue
            lines.append(line)
            words = shlex.split(line[2:])
            if words[0] == "echo":
                self.write(words[3], words[1])
                continue
            self.assertEqual(words[0], "kerf", line)
            done = kerf(*words[1:], cwd=self.folder)
            self.assertIn(done.returncode, (1, 2), line)
            lines.append("error: " + self.message(done, line))
        return "".join(line + "\n" for line in lines)


if __name__ == "__main__":
    main()
