// SPDX-License-Identifier: Apache-2.0
// Steps that can be computed by hand: a kernel takes as many seconds as it has bytes, on a device that moves 1 byte/s.
#pragma once

#include "kerf/CostModel/Simulator.h"
#include <gtest/gtest.h>

namespace kerf {

constexpr double kEps = 1e-9;

/// A cluster whose devices compute one byte per second, with links of `bandwidth` bytes/s and no latency.
inline Cluster slowCluster(int64_t ranks, double bandwidth) {
  Cluster cluster;
  cluster.device.kind = "cuda";
  cluster.device.memoryBytes = 1'000'000;
  cluster.device.memoryBandwidth = 1;
  cluster.device.hostBandwidth = 25e9;
  cluster.device.peakFlops = {{"bf16", 1e3}};
  cluster.device.curves = DeviceCurves();
  cluster.levels = {{"link", ranks, bandwidth, 0, bandwidth, 0}};
  cluster.usedRanks = ranks;
  return cluster;
}

inline KernelWork kernel(const char *name, double seconds, RecomputeModes recomputedBy = RecomputeModes::Others) {
  KernelWork kernel;
  kernel.name = name;
  kernel.work.kernelClass = KernelClass::Pointwise;
  kernel.work.bytes = seconds;
  kernel.recomputedBy = recomputedBy;
  return kernel;
}

struct Step {
  StepWork work;
  StepPlan plan;
  Mesh mesh{{{"stage", 1}, {"data", 1}, {"model", 1}}};
  double bandwidth = 1e3;

  std::vector<AxisRef> axis(int i) const {
    return mesh.axes[i].size > 1 ? std::vector<AxisRef>{wholeAxis(mesh, i)} : std::vector<AxisRef>{};
  }
  CollectiveModel collectives() const { return {mesh, slowCluster(mesh.ranks(), bandwidth)}; }
  Simulation run(Trace trace = Trace::No) const {
    Result<Simulation> result = simulate(work, plan, collectives(), trace);
    EXPECT_TRUE(result) << (result ? "" : result.error().message);
    return result ? *result : Simulation();
  }
};

/// Returns a step with `layers` layers per part. A layer's forward takes 1 s (0.25 s of it recomputed by selective
/// recomputation), its input gradient 1.5 s, its weight gradient 0.5 s. It saves 100 bytes (40 of them dropped by
/// selective recomputation), and its input has 10 bytes. There is no optimizer.
inline Step pipeline(int64_t stages, int64_t microbatches, int64_t layers = 1, int64_t chunks = 1) {
  Step s;
  s.mesh.axes[0].size = stages;
  Segment layer;
  layer.name = "layer";
  layer.repeat = layers;
  layer.recomputable = true;
  layer.forward.kernels = {kernel("product", 0.75), kernel("core", 0.25, RecomputeModes::Attention)};
  layer.inputGradient.kernels = {kernel("input gradient", 1.5)};
  layer.weightGradient.kernels = {kernel("weight gradient", 0.5)};
  layer.saved = {{"x", 60, RecomputeModes::Others, true}, {"scores", 40, RecomputeModes::Attention, false}};
  layer.inputBytes = 10;
  s.work.parts = {{"all", {layer}}};
  s.work.part.assign(stages, std::vector<int>(chunks, 0));
  s.work.message.axes = s.axis(0);
  s.work.tokens = 100;
  s.work.modelFlops = 1e3;
  s.plan.schedule.stages = stages;
  s.plan.schedule.microbatches = microbatches;
  s.plan.schedule.chunks = chunks;
  s.plan.schedule.kind = chunks > 1 ? ScheduleKind::Interleaved : ScheduleKind::OneFOneB;
  s.plan.bytes = {0, 0, 0};
  return s;
}

} // namespace kerf
