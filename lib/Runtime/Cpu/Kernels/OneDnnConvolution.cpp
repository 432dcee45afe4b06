// SPDX-License-Identifier: Apache-2.0
#include "OneDnnConvolution.h"
#include "SingleThreadScope.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <oneapi/dnnl/dnnl.hpp>

namespace kerf::runtime::kernels {

using dnnl::memory;

namespace {
constexpr size_t kMostSpatialDims = 3;
constexpr int64_t kMostPieces = 8;
constexpr int64_t kChannelBlock = 16;      // channels of a block in oneDNN's layouts
constexpr double kPieceProducts = 1 << 20; // fewest multiplications of a piece (10 us), as a call has a fixed cost

/// Index of the scratch memory in the list of base addresses. Before it come the three tensors, by ConvolutionSide.
constexpr size_t kScratch = 3;
constexpr size_t indexOf(ConvolutionSide side) { return size_t(side); }

/// The place of a oneDNN memory object's data while the convolution runs.
struct Place {
  memory object;
  size_t base;    // index into the list of base addresses
  int64_t offset; // bytes from the base address
};

/// A sequence of primitives that one thread runs, with memory objects of its own.
struct Job {
  struct Call {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> arguments;
  };
  std::vector<Place> places;
  std::vector<Call> calls;

  Status run(const std::array<std::byte *, 4> &bases, const dnnl::stream &stream) const {
    SingleThreadScope oneThread;
    for (const Place &place : places)
      dnnl_memory_set_data_handle(place.object.get(), bases[place.base] + place.offset);
    for (const Call &call : calls) {
      dnnl_status_t status =
          dnnl_primitive_execute(call.primitive.get(), stream.get(), int(call.arguments.size()), call.arguments.data());
      if (status != dnnl_success)
        return Error{fmt::format("oneDNN's convolution failed with status {}; report this plan, it is a bug of Kerf",
                                 int(status)),
                     ExitStatus::InternalCheck};
    }
    return ok();
  }
};

/// A dimension along which a convolution can be cut: samples, groups, input or output channels.
enum class Factor { Samples, Groups, In, Out };

/// A cut of a convolution: the dimension that is cut, the number of pieces and the sizes of one piece.
struct Cut {
  Factor factor = Factor::Samples;
  int64_t pieces = 1;
  ConvolutionSizes piece;
};

memory::dims dims(std::initializer_list<int64_t> first, const std::vector<int64_t> &rest) {
  memory::dims all(first);
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

/// Returns the dimensions of one of the three tensors in oneDNN's convention.
memory::dims dimsOf(const ConvolutionSizes &s, ConvolutionSide side) {
  switch (side) {
  case ConvolutionSide::Operand:
    return dims({s.samples, s.groups * s.in}, s.window.size);
  case ConvolutionSide::Kernel:
    return s.groups > 1 ? dims({s.groups, s.out, s.in}, s.window.window) : dims({s.out, s.in}, s.window.window);
  case ConvolutionSide::Result:
    return dims({s.samples, s.groups * s.out}, s.window.places);
  }
  return {};
}

constexpr ConvolutionSide kSides[] = {ConvolutionSide::Operand, ConvolutionSide::Kernel, ConvolutionSide::Result};

/// Returns whether the tensor has the dimension.
bool has(ConvolutionSide side, Factor factor) {
  switch (factor) {
  case Factor::Samples:
    return side != ConvolutionSide::Kernel;
  case Factor::Groups:
    return true;
  case Factor::In:
    return side != ConvolutionSide::Result;
  case Factor::Out:
    return side != ConvolutionSide::Operand;
  }
  return false;
}

/// Returns the number of the tensor's dimension that the factor cuts. In and Out are cut only if there is one group.
size_t dimOf(ConvolutionSide side, Factor factor) {
  bool isKernel = side == ConvolutionSide::Kernel;
  switch (factor) {
  case Factor::Samples:
    return 0;
  case Factor::Groups:
    return isKernel ? 0 : 1;
  case Factor::In:
    return 1;
  case Factor::Out:
    return isKernel ? 0 : 1;
  }
  return 0;
}

int64_t &sizeOf(ConvolutionSizes &sizes, Factor factor) {
  switch (factor) {
  case Factor::Samples:
    return sizes.samples;
  case Factor::Groups:
    return sizes.groups;
  case Factor::In:
    return sizes.in;
  case Factor::Out:
    break;
  }
  return sizes.out;
}

int64_t elementsOfAll(const memory::dims &all) { return product(all, 0); }

/// Returns the cut for which the tensors that all pieces read are smallest. A dimension that is summed over is not cut.
Cut cutOf(const ConvolutionSizes &sizes, ConvolutionSide computed) {
  double products =
      double(elementsOfAll(dimsOf(sizes, ConvolutionSide::Result))) * double(sizes.in * sizes.window.windowElements());
  int64_t most = std::clamp<int64_t>(int64_t(products / kPieceProducts), 1, kMostPieces);
  Cut best{Factor::Samples, 1, sizes};
  int64_t leastShared = std::numeric_limits<int64_t>::max();
  for (Factor factor : {Factor::Samples, Factor::Groups, Factor::In, Factor::Out}) {
    if (!has(computed, factor) || (factor == Factor::Groups) != (sizes.groups > 1 && factor != Factor::Samples))
      continue;
    bool depthwise = factor == Factor::Groups && sizes.in == 1 && sizes.out == 1;
    int64_t unit = factor == Factor::In || factor == Factor::Out || depthwise ? kChannelBlock : 1;
    ConvolutionSizes piece = sizes;
    int64_t &size = sizeOf(piece, factor), pieces = most, shared = 0;
    while (pieces > 1 && size % (unit * pieces) != 0)
      --pieces;
    if (pieces == 1)
      continue;
    size /= pieces;
    for (ConvolutionSide side : kSides)
      if (!has(side, factor))
        shared += elementsOfAll(dimsOf(sizes, side));
    if (shared < leastShared) {
      leastShared = shared;
      best = {factor, pieces, piece};
    }
  }
  return best;
}

/// Returns the strides of one of the three tensors, whose dimensions are those of dimsOf.
std::vector<int64_t> stridesOf(const ConvolutionSizes &s, ConvolutionSide side) {
  memory::dims sizes = dimsOf(s, side);
  size_t channels = side == ConvolutionSide::Kernel && s.groups > 1 ? 2 : 1;
  std::vector<int64_t> strides(sizes.size(), 1);
  int64_t next = s.channelsLast ? sizes[channels] : 1;
  for (size_t d = sizes.size(); d-- > 0;)
    if (d != channels || !s.channelsLast) {
      strides[d] = next;
      next *= sizes[d];
    }
  return strides;
}

memory::data_type typeOf(DType dtype) {
  return dtype == DType::BF16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc plainLayout(const memory::dims &sizes, const std::vector<int64_t> &strides, DType dtype) {
  return {sizes, typeOf(dtype), strides};
}
memory::desc anyLayout(const memory::dims &sizes, DType dtype) {
  return {sizes, typeOf(dtype), memory::format_tag::any};
}

/// The primitive of a piece, and the layouts and argument names of its tensors.
struct Piece {
  dnnl::primitive primitive;
  std::array<memory::desc, 3> layouts; // the primitive's preferred layouts, by ConvolutionSide
  std::array<int, 3> names{};          // oneDNN's names (DNNL_ARG_...) of the tensors, by ConvolutionSide
  memory::desc scratch;
};

dnnl::primitive_attr attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Piece pieceOf(const ConvolutionSizes &sizes, ConvolutionSide computed, const ConvolutionTypes &types,
              const dnnl::engine &engine) {
  const Window &w = sizes.window;
  auto layoutOf = [&](ConvolutionSide side) { return anyLayout(dimsOf(sizes, side), types[indexOf(side)]); };
  memory::desc operand = layoutOf(ConvolutionSide::Operand), kernel = layoutOf(ConvolutionSide::Kernel),
               result = layoutOf(ConvolutionSide::Result);
  memory::dims gaps = w.dilations, behind = w.high; // for oneDNN a dilation is the number of elements skipped
  for (size_t d = 0; d < gaps.size(); ++d) {
    --gaps[d];
    // oneDNN does not accept padding that no place of the window reaches.
    behind[d] = (w.places[d] - 1) * w.strides[d] + (w.window[d] - 1) * w.dilations[d] + 1 - w.size[d] - w.low[d];
  }
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  using Forward = dnnl::convolution_forward;
  // A gradient may be float32 where the tensors that are read are bf16; the forward convolution has their type.
  const ConvolutionSide read =
      computed == ConvolutionSide::Operand ? ConvolutionSide::Kernel : ConvolutionSide::Operand;
  auto forwardLayoutOf = [&](ConvolutionSide side) {
    return side == computed && side != ConvolutionSide::Result ? anyLayout(dimsOf(sizes, side), types[indexOf(read)])
                                                               : layoutOf(side);
  };
  Forward::primitive_desc forward(
      Forward::desc(dnnl::prop_kind::forward_training, direct, forwardLayoutOf(ConvolutionSide::Operand),
                    forwardLayoutOf(ConvolutionSide::Kernel), result, w.strides, gaps, w.low, behind),
      attributes(), engine);
  switch (computed) {
  case ConvolutionSide::Result:
    break;
  case ConvolutionSide::Operand: {
    using Backward = dnnl::convolution_backward_data;
    Backward::primitive_desc backward(Backward::desc(direct, operand, kernel, result, w.strides, gaps, w.low, behind),
                                      attributes(), engine, forward);
    return {Backward(backward),
            {backward.diff_src_desc(), backward.weights_desc(), backward.diff_dst_desc()},
            {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
            backward.scratchpad_desc()};
  }
  case ConvolutionSide::Kernel: {
    using Backward = dnnl::convolution_backward_weights;
    Backward::primitive_desc backward(Backward::desc(direct, operand, kernel, result, w.strides, gaps, w.low, behind),
                                      attributes(), engine, forward);
    return {Backward(backward),
            {backward.src_desc(), backward.diff_weights_desc(), backward.diff_dst_desc()},
            {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
            backward.scratchpad_desc()};
  }
  }
  return {Forward(forward),
          {forward.src_desc(), forward.weights_desc(), forward.dst_desc()},
          {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
          forward.scratchpad_desc()};
}
} // namespace

struct OneDnnConvolution::Parts {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::vector<Job> before; // reorders of the tensors that all pieces read
  std::vector<Job> pieces;
  ScratchLayout layout;
  ConvolutionTypes types;

  memory place(Job &job, const memory::desc &desc, size_t base, int64_t offset) {
    memory made(desc, engine, nullptr);
    job.places.push_back({made, base, offset});
    return made;
  }
  memory pad(Job &job, const memory::desc &desc) {
    return place(job, desc, kScratch, layout.take(int64_t(desc.get_size())));
  }
  void reorder(Job &job, const memory &from, const memory &to) {
    dnnl::reorder::primitive_desc description(from, to, attributes());
    memory scratch = pad(job, description.scratchpad_desc());
    job.calls.push_back({dnnl::reorder(description),
                         {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}, {DNNL_ARG_SCRATCHPAD, scratch.get()}}});
  }

  /// Reorders a whole tensor to the layout `wanted`, and returns its offset in scratch memory. The reorder is cut along
  /// the first dimension (samples or channels) if the dimension is a multiple of blocks.
  int64_t prepare(const ConvolutionSizes &whole, ConvolutionSide side, const memory::desc &wanted) {
    memory::dims sizes = dimsOf(whole, side);
    int64_t offset = layout.take(int64_t(wanted.get_size()));
    int64_t unit = side == ConvolutionSide::Kernel ? kChannelBlock : 1, count = kMostPieces;
    while (count > 1 && sizes[0] % (unit * count) != 0)
      --count;
    memory::desc plain = plainLayout(sizes, stridesOf(whole, side), types[indexOf(side)]);
    for (int64_t i = 0; i < count; ++i) {
      memory::dims size = sizes, start(sizes.size(), 0);
      size[0] /= count;
      start[0] = i * size[0];
      Job job;
      memory from = place(job, plain.submemory_desc(size, start), indexOf(side), 0),
             to = place(job, wanted.submemory_desc(size, start), kScratch, offset);
      reorder(job, from, to);
      before.push_back(std::move(job));
    }
    return offset;
  }

  void add(const ConvolutionSizes &whole, const Cut &cut, ConvolutionSide computed) {
    Piece piece = pieceOf(cut.piece, computed, types, engine);
    std::array<int64_t, 3> prepared = {-1, -1, -1}; // offset in scratch of a tensor that is reordered once; -1: none
    std::array<memory::desc, 3> plain;
    std::array<int64_t, 3> step{}; // bytes from one piece to the next
    for (ConvolutionSide side : kSides) {
      size_t t = indexOf(side);
      memory::dims sizes = dimsOf(whole, side), own = dimsOf(cut.piece, side);
      std::vector<int64_t> strides = stridesOf(whole, side);
      // A piece of one group has no dimension of groups, so it takes the last strides.
      plain[t] = plainLayout(own, {strides.end() - int64_t(own.size()), strides.end()}, types[t]);
      if (cut.pieces == 1)
        continue;
      if (has(side, cut.factor)) {
        size_t dim = dimOf(side, cut.factor);
        step[t] = sizes[dim] / cut.pieces * strides[dim] * kerf::bytesOf(types[t]);
      } else if (plain[t] != piece.layouts[t]) {
        prepared[t] = prepare(whole, side, piece.layouts[t]);
      }
    }
    for (int64_t i = 0; i < cut.pieces; ++i)
      pieces.push_back(job(piece, plain, prepared, step, i, indexOf(computed)));
  }

  Job job(const Piece &piece, const std::array<memory::desc, 3> &plain, const std::array<int64_t, 3> &prepared,
          const std::array<int64_t, 3> &step, int64_t index, size_t computed) {
    Job job;
    std::array<memory, 3> tensors;
    memory target; // the computed tensor's final memory, if the primitive writes another layout to scratch first
    for (size_t t = 0; t < 3; ++t) {
      if (prepared[t] >= 0) {
        tensors[t] = place(job, piece.layouts[t], kScratch, prepared[t]);
        continue;
      }
      tensors[t] = place(job, plain[t], t, index * step[t]);
      if (plain[t] == piece.layouts[t])
        continue;
      memory inside = pad(job, piece.layouts[t]);
      if (t == computed)
        target = tensors[t];
      else
        reorder(job, tensors[t], inside);
      tensors[t] = inside;
    }
    memory scratch = pad(job, piece.scratch);
    job.calls.push_back({piece.primitive,
                         {{piece.names[0], tensors[0].get()},
                          {piece.names[1], tensors[1].get()},
                          {piece.names[2], tensors[2].get()},
                          {DNNL_ARG_SCRATCHPAD, scratch.get()}}});
    if (target)
      reorder(job, tensors[computed], target);
    return job;
  }

  Status runAll(ThreadTeam *team, const std::vector<Job> &jobs, const std::array<std::byte *, 4> &bases) const {
    std::atomic<size_t> failed = jobs.size();
    forTasks(team, int64_t(jobs.size()), [&](int64_t task, int64_t) {
      if (!jobs[size_t(task)].run(bases, stream))
        failed = size_t(task);
    });
    return failed == jobs.size() ? ok() : jobs[failed].run(bases, stream); // a second run gives the error's message
  }
};

OneDnnConvolution::~OneDnnConvolution() = default;

std::shared_ptr<OneDnnConvolution> OneDnnConvolution::make(const ConvolutionSizes &sizes, ConvolutionSide computed,
                                                           const ConvolutionTypes &types) {
  if (sizes.window.size.size() > kMostSpatialDims || sizes.samples == 0 || sizes.window.placeCount() == 0)
    return nullptr;
  // If oneDNN does not support the pieces, the uncut convolution is tried.
  for (const Cut &cut : {cutOf(sizes, computed), Cut{Factor::Samples, 1, sizes}})
    try {
      SingleThreadScope oneThread;
      auto convolution = std::make_shared<OneDnnConvolution>();
      convolution->parts = std::make_unique<Parts>();
      convolution->parts->types = types;
      convolution->parts->add(sizes, cut, computed);
      convolution->scratchBytes = convolution->parts->layout.bytes();
      return convolution;
    } catch (const dnnl::error &) {
    }
  return nullptr;
}

Status OneDnnConvolution::run(ThreadTeam *team, void *operand, void *kernel, void *result, void *scratch) const {
  const std::array<std::byte *, 4> bases = {static_cast<std::byte *>(operand), static_cast<std::byte *>(kernel),
                                            static_cast<std::byte *>(result), static_cast<std::byte *>(scratch)};
  if (Status status = parts->runAll(team, parts->before, bases); !status)
    return status;
  return parts->runAll(team, parts->pieces, bases);
}

} // namespace kerf::runtime::kernels
