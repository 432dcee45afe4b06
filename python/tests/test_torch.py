#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kerf.torch: captured modules train as PyTorch trains them (float64, SGD with momentum, 1e-10), and wrong inputs raise the documented
exception. KERF_ALL=1 runs every test, with every model on one rank and on two; without it a few of them run."""
import os
import tempfile
import unittest
import warnings

import numpy as np

import kerf

try:
    import onnxscript  # noqa: F401 - the exporter needs it
    import torch
    import torch.nn.functional as F
    from torch import nn

    import kerf.torch
    from torch_models import MODELS, InDouble, Mixer, gpt2, mixed, mixer_loss, tokens
    MISSING = None
except ImportError as error:
    MISSING = str(error)

ALL = bool(os.environ.get("KERF_ALL"))
STEPS = 4
SGD = {"lr": 0.05, "momentum": 0.9}


def skip_without_torch():
    if MISSING:
        raise unittest.SkipTest(f"these tests need torch, onnx and onnxscript: {MISSING}")


def copy_of(make, seed=0):
    torch.manual_seed(seed)
    return make().double()


def eager(module, loss, optimizer, batches, each=lambda: None):
    """The losses of PyTorch's own training."""
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        args, kwargs = ((), batch) if isinstance(batch, dict) else (batch, {})
        with InDouble():
            value = module(**kwargs).loss if loss is None else loss(module, *args, **kwargs)
        value.backward()
        optimizer.step()
        each()
        losses.append(value.item())
    return losses


def data(module, make, steps=STEPS):
    torch.manual_seed(1)
    return [make(module) for _ in range(steps)]


class TorchCase(unittest.TestCase):
    def setUp(self):
        skip_without_torch()
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")

    def close(self, ours, theirs, bound=1e-10):
        np.testing.assert_allclose(np.asarray(ours, float), np.asarray(theirs, float), rtol=bound, atol=bound)


class Parity(TorchCase):
    def check(self, name, ranks):
        make, batch, loss = MODELS[name]
        theirs, ours = copy_of(make), copy_of(make)
        batches = data(ours, batch)
        expected = eager(theirs, loss, torch.optim.SGD(theirs.parameters(), **SGD), batches)
        step = kerf.torch.compile_step(ours, loss, torch.optim.SGD(ours.parameters(), **SGD),
                                       None if ranks == 1 else {"kerf": 1, "mesh": {"data": ranks}}, batch=batches[0])
        self.assertEqual(step.plan.ranks, ranks)
        self.close([step(one).item() for one in batches], expected)
        step.sync()
        for key, parameter in theirs.named_parameters():
            self.close(ours.get_parameter(key).detach(), parameter.detach())

    def test_mixer_on_two_ranks(self):
        self.check("mixer", 2)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every model")
    def test_every_model(self):
        for name in MODELS:
            for ranks in (1, 2):
                with self.subTest(model=name, ranks=ranks):
                    self.check(name, ranks)


class Steps(TorchCase):
    def pair(self, optimizer_of):
        theirs, ours = copy_of(Mixer), copy_of(Mixer)
        return theirs, ours, optimizer_of(theirs), optimizer_of(ours), data(ours, mixed)

    def test_groups_and_scheduler(self):
        def optimizer(model):
            decayed = [p for p in model.parameters() if p.dim() > 1]
            others = [p for p in model.parameters() if p.dim() == 1]
            return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0, "lr": 3e-2}], lr=1e-2)

        theirs, ours, reference, its, batches = self.pair(optimizer)
        schedules = [torch.optim.lr_scheduler.LambdaLR(one, lambda at: (at + 1) / 3) for one in (reference, its)]
        expected = eager(theirs, mixer_loss, reference, batches, schedules[0].step)
        step = kerf.torch.compile_step(ours, mixer_loss, its)
        losses = []
        for batch in batches:
            losses.append(step(batch).item())
            schedules[1].step()
        self.close(losses, expected)
        state = step.state_dict()
        self.assertEqual(set(state["module"]), set(theirs.state_dict()))
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            self.close(its.state[mine]["exp_avg_sq"], reference.state[other]["exp_avg_sq"])
            self.assertEqual(float(its.state[mine]["step"]), STEPS)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every optimizer")
    def test_every_optimizer_continues(self):
        """Two steps of PyTorch, two of Kerf, two of PyTorch: the states go back and forth."""
        for kind, settings in ((torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
                               (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.01}), (torch.optim.AdamW, {"lr": 1e-2}),
                               (torch.optim.Adagrad, {"lr": 1e-2}), (torch.optim.Adafactor, {"lr": 1e-1, "weight_decay": 0.01})):
            with self.subTest(optimizer=kind.__name__):
                theirs, ours, reference, its, batches = self.pair(lambda model: kind(model.parameters(), **settings))
                batches += batches[:2]
                expected = eager(theirs, mixer_loss, reference, batches)
                losses = eager(ours, mixer_loss, its, batches[:2])
                step = kerf.torch.compile_step(ours, mixer_loss, its)
                losses += [step(batch).item() for batch in batches[2:4]]
                step.sync()
                losses += eager(ours, mixer_loss, its, batches[4:])
                self.close(losses, expected)

    def test_adafactor_of_twenty_steps(self):
        """Ten steps of Kerf, the states to PyTorch, ten more of another step of Kerf: all as 20 of PyTorch, with a schedule."""
        theirs, ours, reference, its, batches = self.pair(
            lambda model: torch.optim.Adafactor(model.parameters(), lr=0.2, d=1.5, eps=(None, 2e-3), beta2_decay=-0.7, weight_decay=0.02))
        batches = [batches[at % len(batches)] for at in range(20)]
        schedules = [torch.optim.lr_scheduler.LambdaLR(one, lambda at: 1 / (1 + at)) for one in (reference, its)]
        expected = eager(theirs, mixer_loss, reference, batches, schedules[0].step)
        losses = []
        for half in (batches[:10], batches[10:]):
            step = kerf.torch.compile_step(ours, mixer_loss, its)
            for batch in half:
                losses.append(step(batch).item())
                schedules[1].step()
            step.sync()
        self.close(losses, expected)
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            self.assertEqual(set(its.state[mine]), set(reference.state[other]))
            for name, value in its.state[mine].items():
                self.assertEqual(value.shape, reference.state[other][name].shape)
                self.close(value, reference.state[other][name])

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every test")
    def test_plan_of_the_captured_model(self):
        """The job of a plan, here with another momentum, does not change what is trained."""
        theirs, ours, reference, its, batches = self.pair(lambda model: torch.optim.SGD(model.parameters(), **SGD))
        model = kerf.torch.capture(ours, batches[0], mixer_loss)
        plan = kerf.plan(model, ranks=2, all_ranks=True, optimizer=kerf.SGD(momentum=0.5), dtype="f64", progress=False)
        step = kerf.torch.compile_step(ours, mixer_loss, its, plan)
        self.close([step(batch).item() for batch in batches], eager(theirs, mixer_loss, reference, batches))

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every test")
    def test_detach_and_padding(self):
        class Tables(nn.Module):
            def __init__(self):
                super().__init__()
                self.table, self.head = nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 11)

            def forward(self, x):
                return self.head(self.table(x) * self.table(x).detach().tanh())

        def loss(model, x, labels):
            return F.cross_entropy(model(x).flatten(0, 1), labels.flatten())

        theirs, ours = copy_of(Tables), copy_of(Tables)
        batches = data(ours, lambda model: (torch.randint(4, (4, 5)), torch.randint(11, (4, 5))))
        its = torch.optim.SGD(ours.parameters(), **SGD)
        step = kerf.torch.compile_step(ours, loss, its)
        self.close([step(batch).item() for batch in batches], eager(theirs, loss, torch.optim.SGD(theirs.parameters(), **SGD), batches))
        step.sync()
        with torch.no_grad():
            ours.table.weight[0] = 1
        with self.assertRaisesRegex(kerf.InputError, "row 0 of 'table.weight'"):
            kerf.torch.compile_step(ours, loss, its, batch=batches[0])

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every test")
    def test_frozen_parameters(self):
        theirs, ours, reference, its, batches = self.pair(lambda model: torch.optim.SGD(model.head.parameters(), **SGD))
        step = kerf.torch.compile_step(ours, mixer_loss, its)
        self.close([step(batch).item() for batch in batches], eager(theirs, mixer_loss, reference, batches))

    def test_refusals(self):
        model = copy_of(Mixer)
        sgd = torch.optim.SGD(model.parameters(), **SGD)
        batch = mixed(model)
        for optimizer, words in ((torch.optim.RMSprop(model.parameters()), "RMSprop"),
                                 (torch.optim.Adam(model.parameters(), amsgrad=True), "amsgrad"),
                                 (torch.optim.Adafactor(model.parameters(), maximize=True), "maximize"),
                                 (torch.optim.SGD([{"params": model.head.parameters()}, {"params": model.stem.parameters(), "momentum": 0.5}]),
                                  "parameter group 1 has momentum")):
            with self.assertRaisesRegex(kerf.InputError, words):
                kerf.torch.compile_step(model, mixer_loss, optimizer)
        if hasattr(torch.optim, "Muon"):
            muon = torch.optim.Muon([parameter for parameter in model.parameters() if parameter.dim() == 2])
            with self.assertRaisesRegex(kerf.InputError, "torch.optim.Muon rounds the products of its Newton-Schulz steps to bfloat16"):
                kerf.torch.compile_step(model, mixer_loss, muon)
        step = kerf.torch.compile_step(model, mixer_loss, sgd)
        with self.assertRaisesRegex(kerf.InputError, "not compiled yet"):
            step.sync()
        first = step(batch).item()
        with self.assertRaisesRegex(kerf.InputError, "'x'"):
            step((batch[0][:2], batch[1]))
        with self.assertRaisesRegex(kerf.InputError, "other parts"):
            step({"x": batch[0]})
        self.assertLess(step(batch).item(), first)
        with torch.no_grad():
            model.stem.weight.add_(1)
        with self.assertRaisesRegex(kerf.InputError, "'stem.weight' was changed outside"):
            step(batch)


class Capture(TorchCase):
    def test_without_values(self):
        """Parameters on the device "meta" make the model that parameters with values make, and stay where they are."""
        real, meta = Mixer(), Mixer().to("meta")
        batch = mixed(real)
        models = [kerf.torch.capture(model, batch, mixer_loss) for model in (real, meta)]
        plans = [kerf.plan(model, ranks=2, progress=False).to_dict() for model in models]
        self.assertEqual(plans[0]["inputs"], plans[1]["inputs"])
        self.assertTrue(all(parameter.is_meta for parameter in meta.parameters()))

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every test")
    def test_values_travel_with_the_model(self):
        model = copy_of(Mixer)
        batches = data(model, mixed)
        captured = kerf.torch.capture(model, batches[0], mixer_loss, data=True)
        trainer = kerf.Trainer(captured, optimizer=kerf.SGD(momentum=0.9), lr=SGD["lr"], dtype="f64")
        losses = [trainer.step(x=x, classes=classes).loss for x, classes in batches]
        self.close(losses, eager(model, mixer_loss, torch.optim.SGD(model.parameters(), **SGD), batches))

    @unittest.skipUnless(ALL, "KERF_ALL=1 trains with dropout")
    def test_dropout(self):
        torch.manual_seed(0)
        model = gpt2(dropout=0.3).train()
        batch = tokens(model)
        step = kerf.torch.compile_step(model, None, torch.optim.SGD(model.parameters(), lr=0.0), seed=3)
        losses = {step(batch).item() for _ in range(3)}
        self.assertEqual(len(losses), 3)

    @unittest.skipUnless(ALL, "KERF_ALL=1 runs every test")
    def test_package_on_tensors(self):
        model = copy_of(Mixer)
        batches = data(model, mixed)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        with tempfile.TemporaryDirectory() as folder:
            package = kerf.compile(kerf.torch.capture(model, batches[0], mixer_loss), {"kerf": 1, "mesh": {"data": 2}}, to=folder,
                                   optimizer=kerf.SGD(momentum=0.9), dtype="f64")
            result = kerf.torch.run(package, {name: torch.stack(each) for name, each in zip(("x", "classes"), zip(*batches))}, weights=weights,
                                    lr=SGD["lr"])
        self.close(result.losses, eager(model, mixer_loss, torch.optim.SGD(model.parameters(), **SGD), batches))
        for name, parameter in model.named_parameters():
            self.close(result.parameters[name], parameter.detach())

    def test_refusals(self):
        class Branches(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x

        net = nn.Sequential(nn.Linear(3, 3), Branches())
        x = torch.randn(2, 3)
        mean = lambda model, x: model(x).mean()  # noqa: E731
        with self.assertRaisesRegex(kerf.InputError, r"Sequential cannot be exported.*'1' \(Branches\)"):
            kerf.torch.capture(net, x, mean)
        with self.assertRaisesRegex(kerf.InputError, r"the module '1' \(BatchNorm1d\).*eval\(\)"):
            kerf.torch.capture(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), x, mean)
        with self.assertRaisesRegex(kerf.InputError, r"shape \(2, 3\); a loss is one number"):
            kerf.torch.capture(nn.Linear(3, 3), x)
        with self.assertRaisesRegex(kerf.InputError, "no tensors"):
            kerf.torch.capture(nn.Linear(3, 3), {}, mean)
        hooked = nn.Linear(3, 3)
        hooked.weight.register_hook(lambda gradient: 2 * gradient)
        with self.assertRaisesRegex(kerf.InputError, "hook on the gradient of its parameter 'weight'"):
            kerf.torch.capture(hooked, x, mean)

    def test_arguments_that_are_no_tensors(self):
        def loss(model, x, scale, *, targets):
            return scale * F.mse_loss(model(x), targets)

        model = nn.Linear(3, 3).double()
        x = torch.randn(2, 3, dtype=torch.float64)
        step = kerf.torch.compile_step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1))
        expected = loss(model, x, 3.0, targets=x).item()
        self.close(step({"x": x, "scale": 3.0, "targets": x}).item(), expected)
        with self.assertRaisesRegex(kerf.InputError, "4.0 where the captured one had 3.0"):
            step({"x": x, "scale": 4.0, "targets": x})


if __name__ == "__main__":
    unittest.main()
