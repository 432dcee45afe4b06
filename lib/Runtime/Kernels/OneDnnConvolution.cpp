// SPDX-License-Identifier: Apache-2.0
#include "OneDnnConvolution.h"
#include "OneThread.h"

#include <algorithm>
#include <array>
#include <oneapi/dnnl/dnnl.hpp>

namespace kerf::runtime::kernels {

using dnnl::memory;

namespace {
constexpr size_t kMostSpatialDims = 3;

/// A primitive with its arguments; all handles but those of tensors are set when it runs.
struct Call {
  dnnl::primitive primitive;
  std::vector<dnnl_exec_arg_t> arguments;
};

/// One of the three tensors: as it lies in memory, and as the convolution wants it.
struct Lies {
  memory plain, inside; // `inside` has memory of its own in scratch where the two differ
  bool differs = false;
  int64_t offset = 0;
};

memory::dims dims(std::initializer_list<int64_t> first, const std::vector<int64_t> &rest) {
  memory::dims all(first);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

memory::desc rowMajor(const memory::dims &sizes) {
  memory::dims strides(sizes.size(), 1);
  for (size_t d = sizes.size() - 1; d-- > 0;)
    strides[d] = strides[d + 1] * sizes[d + 1];
  return {sizes, memory::data_type::f32, strides};
}

memory::desc anyLayout(const memory::dims &sizes) { return {sizes, memory::data_type::f32, memory::format_tag::any}; }
} // namespace

struct OneDnnConvolution::Parts {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::array<Lies, 3> tensors; // by ConvolutionSide
  std::vector<Call> calls;
  std::vector<std::pair<memory, int64_t>> pads; // primitives' own scratch, and where it lies in ours
  ScratchLayout layout;

  memory pad(const memory::desc &desc) {
    memory made(desc, engine, nullptr);
    pads.emplace_back(made, layout.take(int64_t(desc.get_size())));
    return made;
  }
  void reorder(const memory &from, const memory &to, const dnnl::primitive_attr &attr) {
    dnnl::reorder::primitive_desc description(from, to, attr);
    memory scratch = pad(description.scratchpad_desc());
    calls.push_back({dnnl::reorder(description),
                     {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}, {DNNL_ARG_SCRATCHPAD, scratch.get()}}});
  }
};

OneDnnConvolution::~OneDnnConvolution() = default;

std::shared_ptr<OneDnnConvolution> OneDnnConvolution::make(const ConvolutionSizes &sizes, ConvolutionSide made) {
  const Window &w = sizes.window;
  if (w.size.size() > kMostSpatialDims || sizes.samples == 0 || w.placeCount() == 0)
    return nullptr;
  try {
    OneThread oneThread;
    auto convolution = std::make_shared<OneDnnConvolution>();
    convolution->parts = std::make_unique<Parts>();
    Parts &parts = *convolution->parts;
    memory::dims operand = dims({sizes.samples, sizes.groups * sizes.in}, w.size),
                 result = dims({sizes.samples, sizes.groups * sizes.out}, w.places),
                 kernel = sizes.groups > 1 ? dims({sizes.groups, sizes.out, sizes.in}, w.window)
                                           : dims({sizes.out, sizes.in}, w.window);
    memory::dims gaps = w.dilations, behind = w.high; // oneDNN counts the elements between
    for (size_t d = 0; d < gaps.size(); ++d) {
      --gaps[d];
      // Padding that no place of the window reaches is not padding to it.
      behind[d] = (w.places[d] - 1) * w.strides[d] + (w.window[d] - 1) * w.dilations[d] + 1 - w.size[d] - w.low[d];
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    constexpr auto direct = dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward;
    Forward::primitive_desc forward(Forward::desc(dnnl::prop_kind::forward_training, direct, anyLayout(operand),
                                                  anyLayout(kernel), anyLayout(result), w.strides, gaps, w.low, behind),
                                    attr, parts.engine);
    dnnl::primitive primitive;
    std::array<memory::desc, 3> wants;
    std::array<int, 3> names;
    memory::desc scratch;
    switch (made) {
    case ConvolutionSide::Result:
      primitive = Forward(forward);
      wants = {forward.src_desc(), forward.weights_desc(), forward.dst_desc()};
      names = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
      scratch = forward.scratchpad_desc();
      break;
    case ConvolutionSide::Operand: {
      using Backward = dnnl::convolution_backward_data;
      Backward::primitive_desc backward(Backward::desc(direct, anyLayout(operand), anyLayout(kernel), anyLayout(result),
                                                       w.strides, gaps, w.low, behind),
                                        attr, parts.engine, forward);
      primitive = Backward(backward);
      wants = {backward.diff_src_desc(), backward.weights_desc(), backward.diff_dst_desc()};
      names = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST};
      scratch = backward.scratchpad_desc();
      break;
    }
    case ConvolutionSide::Kernel: {
      using Backward = dnnl::convolution_backward_weights;
      Backward::primitive_desc backward(Backward::desc(direct, anyLayout(operand), anyLayout(kernel), anyLayout(result),
                                                       w.strides, gaps, w.low, behind),
                                        attr, parts.engine, forward);
      primitive = Backward(backward);
      wants = {backward.src_desc(), backward.diff_weights_desc(), backward.diff_dst_desc()};
      names = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
      scratch = backward.scratchpad_desc();
      break;
    }
    }
    const std::array<const memory::dims *, 3> plain = {&operand, &kernel, &result};
    for (size_t i = 0; i < 3; ++i) {
      Lies &lies = parts.tensors[i];
      memory::desc own = rowMajor(*plain[i]);
      lies.plain = memory(own, parts.engine, nullptr);
      lies.differs = own != wants[i];
      lies.inside = lies.differs ? memory(wants[i], parts.engine, nullptr) : lies.plain;
      if (lies.differs)
        lies.offset = parts.layout.take(int64_t(wants[i].get_size()));
    }
    for (size_t i = 0; i < 3; ++i)
      if (parts.tensors[i].differs && i != size_t(made))
        parts.reorder(parts.tensors[i].plain, parts.tensors[i].inside, attr);
    memory pad = parts.pad(scratch);
    parts.calls.push_back({primitive,
                           {{names[0], parts.tensors[0].inside.get()},
                            {names[1], parts.tensors[1].inside.get()},
                            {names[2], parts.tensors[2].inside.get()},
                            {DNNL_ARG_SCRATCHPAD, pad.get()}}});
    if (Lies &lies = parts.tensors[size_t(made)]; lies.differs)
      parts.reorder(lies.inside, lies.plain, attr);
    convolution->scratchBytes = parts.layout.bytes();
    return convolution;
  } catch (const dnnl::error &) {
    return nullptr;
  }
}

Status OneDnnConvolution::run(float *operand, float *kernel, float *result, void *scratch) const {
  OneThread oneThread;
  const std::array<float *, 3> data = {operand, kernel, result};
  for (size_t i = 0; i < 3; ++i) {
    const Lies &lies = parts->tensors[i];
    dnnl_memory_set_data_handle(lies.plain.get(), data[i]);
    if (lies.differs)
      dnnl_memory_set_data_handle(lies.inside.get(), scratchAt<void>(scratch, lies.offset));
  }
  for (const auto &[pad, offset] : parts->pads)
    dnnl_memory_set_data_handle(pad.get(), scratchAt<void>(scratch, offset));
  for (const Call &call : parts->calls) {
    dnnl_status_t status = dnnl_primitive_execute(call.primitive.get(), parts->stream.get(), int(call.arguments.size()),
                                                  call.arguments.data());
    if (status != dnnl_success)
      return Error{fmt::format("oneDNN's convolution failed with status {}", int(status)), ExitStatus::InternalCheck};
  }
  return ok();
}

} // namespace kerf::runtime::kernels
