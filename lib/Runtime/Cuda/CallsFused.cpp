// SPDX-License-Identifier: Apache-2.0
// Calls of the compiled kernels of packages. The kernel stores the values of pointwise ops, and computes reductions of
// them and of its arguments (package::ptxReduction). The partial results of reductions in pieces lie in the scratch
// memory, and the kernel `combinePieces` combines them. Reductions that the kernel does not compute are calls of the
// kernels of `reduce`, and a value that is only reduced by them lies in the scratch memory.
#include "CallsReduce.h"
#include "CallsSort.h"
#include "PtxCode.h"
#include "kerf/Runtime/Cpu/Kernels.h"

#include <fmt/format.h>

namespace kerf::runtime::cuda {

namespace {
using package::Function;

/// Checks that the tensors are those of the function's values.
Status checkTensors(const Function &function, const std::vector<int> &values, const std::vector<TensorView> &views,
                    std::string_view what) {
  if (views.size() != values.size())
    return Error{fmt::format("the kernel '{}' has {} {}s, and {} are given; compile the model again", function.name,
                             values.size(), what, views.size()),
                 ExitStatus::InternalCheck};
  for (size_t i = 0; i < views.size(); ++i) {
    const package::Value &value = function.values[size_t(values[i])];
    if (views[i].dtype != value.dtype || views[i].shape != value.shape)
      return Error{fmt::format("{} {} of the kernel '{}' has {} elements of {}, and a tensor of {} elements of {} is "
                               "given; compile the model again",
                               what, i, function.name, elementsOf(value.shape), toString(value.dtype),
                               views[i].elements(), toString(views[i].dtype)),
                   ExitStatus::InternalCheck};
    if (reinterpret_cast<uintptr_t>(views[i].data) % size_t(package::kPtxAlignment) != 0)
      return Error{fmt::format("{} {} of the kernel '{}' lies at an address that is no multiple of {}", what, i,
                               function.name, package::kPtxAlignment),
                   ExitStatus::InternalCheck};
  }
  return ok();
}

/// Makes the launch of a compiled kernel.
LibraryCall launchOf(const PtxCode &code, const PtxKernel &kernel, std::vector<void *> addresses) {
  auto reduction = package::ptxReduction(*kernel.function);
  int64_t items = package::ptxItems(*kernel.function, kernel.space).count();
  int64_t blocks = reduction ? reduction->blocks() : (items + package::kPtxThreads - 1) / package::kPtxThreads;
  return [module = code.module, entry = kernel.entry,
          blocks = unsigned(std::clamp<int64_t>(blocks, 1, package::kMostPtxBlocks)),
          addresses = std::move(addresses)](CudaStream &stream) mutable -> Status {
    void *parameters[] = {addresses.data()};
    DriverResult result = stream.context->driver.launchKernel(entry, blocks, 1, 1, unsigned(package::kPtxThreads), 1, 1,
                                                              0, stream.stream, parameters, nullptr);
    return result == 0 ? ok() : stream.context->check(result, "launch a kernel of the package");
  };
}

/// Checks a reduction as the CPU's kernel of `reduce` does.
Status checkReduction(const KernelRequest &request) {
  auto checked = kerf::runtime::scratchBytes(hostRequest(request, nullptr));
  if (!checked)
    return checked.error();
  return ok();
}

/// Makes the calls of a reduction, which use scratch memory from byte `scratchAt` on.
Result<Calls> reductionCalls(const CallRequest &r, const package::Instruction &reduce, const TensorView &from,
                             const TensorView &to, int64_t scratchAt) {
  KernelRequest request{reduce, {from}, {to}, r.request.mesh, r.request.rank, r.scratch(scratchAt)};
  if (Status status = checkReduction(request); !status)
    return status.error();
  return callsOf({request, r.faults, r.gpu});
}

/// Adds the addresses to which the kernel writes its reductions, and takes scratch memory from `calls` for partial
/// results. Returns the calls that combine them.
Result<Calls> addReductions(Calls &calls, const CallRequest &r, const std::optional<package::PtxReduction> &reduction,
                            std::vector<void *> &addresses) {
  Calls combining;
  const Function &function = *r.request.function;
  for (size_t i = 0; i < function.results.size() && reduction; ++i) {
    if (std::count(reduction->results.begin(), reduction->results.end(), function.results[i]) == 0)
      continue;
    const TensorView &y = r.result(i);
    const package::Instruction &reduce = *package::reductionOf(function, function.results[i]);
    const package::Value &from = function.values[size_t(reduce.operands[0])];
    KernelRequest request{reduce, {{nullptr, from.dtype, from.shape}}, {y}, r.request.mesh, r.request.rank, nullptr};
    if (Status status = checkReduction(request); !status)
      return status.error();
    if (reduction->plan.pieces == 1) {
      addresses.push_back(y.data);
      continue;
    }
    void *partials = r.scratch(takeScratch(calls, bytesOfPartials(reduction->plan)));
    addresses.push_back(partials);
    addCombination(combining, y.dtype,
                   reduceParameters(kindOf(reduce.attrs), reduction->plan, nullptr, y.data, partials));
  }
  return combining;
}
} // namespace

Result<Calls> callFused(const CallRequest &r) {
  const Function &function = *r.request.function;
  const auto &code = static_cast<const PtxCode &>(*r.request.code);
  const PtxKernel &kernel = code.kernels.at(function.name);
  if (Status status = checkTensors(function, function.args, r.request.operands, "argument"); !status)
    return status.error();
  if (Status status = checkTensors(function, function.results, r.request.results, "result"); !status)
    return status.error();

  Calls calls;
  std::map<int, TensorView> tensors; // by value of the function
  std::vector<void *> addresses;
  for (size_t i = 0; i < function.args.size(); ++i) {
    tensors[function.args[i]] = r.operand(i);
    addresses.push_back(r.operand(i).data);
  }
  for (size_t i = 0; i < function.results.size(); ++i)
    if (!package::reductionOf(function, function.results[i])) {
      tensors.emplace(function.results[i], r.result(i)); // a result may be an argument
      addresses.push_back(r.result(i).data);
    }
  std::vector<int> stored = package::storedValues(function);
  for (size_t i = addresses.size() - function.args.size(); i < stored.size(); ++i) {
    const package::Value &value = function.values[size_t(stored[i])];
    TensorView view{nullptr, value.dtype, value.shape};
    view.data = r.scratch(takeScratch(calls, view.bytes()));
    tensors[stored[i]] = view;
    addresses.push_back(view.data);
  }
  auto computed = package::ptxReduction(function);
  Result<Calls> combining = addReductions(calls, r, computed, addresses);
  if (!combining)
    return combining.error();

  // Arguments that the kernel does not reduce are reduced before it, because it may overwrite them.
  std::vector<Call> after;
  int64_t ofReductions = 0;
  for (size_t i = 0; i < function.results.size(); ++i) {
    const package::Instruction *reduce = package::reductionOf(function, function.results[i]);
    bool isComputed = computed && std::count(computed->results.begin(), computed->results.end(), function.results[i]);
    if (!reduce || isComputed)
      continue;
    int value = reduce->operands[0];
    auto made = reductionCalls(r, *reduce, tensors.at(value), r.result(i), calls.scratchBytes);
    if (!made)
      return made.error();
    ofReductions = std::max(ofReductions, made->scratchBytes);
    bool isArgument = std::count(function.args.begin(), function.args.end(), value) > 0;
    std::vector<Call> &list = isArgument ? calls.calls : after;
    list.insert(list.end(), made->calls.begin(), made->calls.end());
  }
  calls.scratchBytes += ofReductions;
  if ((!stored.empty() || computed) && kernel.space.rows() * kernel.space.columns() > 0)
    calls.calls.emplace_back(launchOf(code, kernel, std::move(addresses)));
  calls.calls.insert(calls.calls.end(), combining->calls.begin(), combining->calls.end());
  calls.calls.insert(calls.calls.end(), after.begin(), after.end());
  return calls;
}

} // namespace kerf::runtime::cuda
