#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes learning_rates.json: the factors by which Hugging Face's schedules multiply the learning rate, step by step.

Needs torch and transformers:  python make_learning_rates.py
"""
import json
import os

import torch
import transformers
from transformers import get_constant_schedule_with_warmup, get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

CASES = [("constant", 0, 6), ("constant", 4, 8), ("linear", 0, 6), ("linear", 3, 12), ("linear", 12, 12), ("cosine", 0, 7), ("cosine", 5, 16),
         ("cosine", 1, 9)]
MAKE = {"constant": lambda optimizer, warmup, total: get_constant_schedule_with_warmup(optimizer, warmup),
        "linear": get_linear_schedule_with_warmup, "cosine": get_cosine_schedule_with_warmup}


def factors(name, warmup, total):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = MAKE[name](optimizer, warmup, total)
    found = []
    for _ in range(total):
        found.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    return found


rows = [{"schedule": name, "warmup": warmup, "total": total, "factors": factors(name, warmup, total)} for name, warmup, total in CASES]
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "learning_rates.json")
with open(path, "w", encoding="utf-8") as file:
    file.write("{" + f'"transformers": "{transformers.__version__}",\n "rows": [\n  ')
    file.write(",\n  ".join(json.dumps(row) for row in rows) + "\n]}\n")
