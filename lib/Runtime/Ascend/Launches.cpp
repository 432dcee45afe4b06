// SPDX-License-Identifier: Apache-2.0
#include "Launches.h"

#include <algorithm>
#include <fmt/format.h>

namespace kerf::runtime::ascend {

namespace {
/// Makes the object of a view.
AclTensor *makeTensor(const Acl &acl, const View &view) {
  // The storage is what the view reaches: dense views have their own sizes, others one dimension.
  int64_t reach = view.offset + 1;
  for (size_t d = 0; d < view.sizes.size(); ++d)
    reach += (view.sizes[d] - 1) * view.strides[d];
  Shape storage = isDense(view) && view.offset == 0 ? view.sizes : Shape{reach};
  return acl.createTensor(view.sizes.data(), view.sizes.size(), aclTypeOf(view.dtype), view.strides.data(), view.offset,
                          view.format, storage.data(), storage.size(), view.data);
}

void *makeScalar(const Acl &acl, const ScalarValue &value) {
  if (value.dtype == DType::I64) {
    int64_t integer = value.integer;
    return acl.createScalar(&integer, aclTypeOf(DType::I64));
  }
  if (value.dtype == DType::F64) {
    double number = value.number;
    return acl.createScalar(&number, aclTypeOf(DType::F64));
  }
  auto number = float(value.number);
  return acl.createScalar(&number, aclTypeOf(DType::F32));
}
} // namespace

Status BoundOperator::makeHandles(const std::vector<Argument> &arguments) {
  const Acl &acl = context->acl;
  texts.reserve(arguments.size());
  for (const Argument &argument : arguments) {
    Handle handle{nullptr};
    bool isObject = true;
    if (const auto *view = std::get_if<View>(&argument))
      handle.pointer = makeTensor(acl, *view);
    else if (const auto *scalar = std::get_if<ScalarValue>(&argument))
      handle.pointer = makeScalar(acl, *scalar);
    else if (const auto *ints = std::get_if<std::vector<int64_t>>(&argument))
      handle.pointer = acl.createIntArray(ints->data(), ints->size());
    else if (const auto *bits = std::get_if<std::vector<bool>>(&argument)) {
      const std::unique_ptr<bool[]> copy(new bool[bits->size()]);
      std::copy(bits->begin(), bits->end(), copy.get());
      handle.pointer = acl.createBoolArray(copy.get(), bits->size());
    } else {
      isObject = false;
      if (const auto *text = std::get_if<std::string>(&argument))
        handle.pointer = texts.emplace_back(*text).data();
      else if (const auto *bit = std::get_if<bool>(&argument))
        handle.integer = *bit;
      else if (const auto *integer = std::get_if<int64_t>(&argument))
        handle.integer = *integer;
      else if (const auto *number = std::get_if<double>(&argument))
        handle.number = *number;
      else if (const auto *dtype = std::get_if<DType>(&argument))
        handle.integer = aclTypeOf(*dtype);
    }
    handles.push_back(handle);
    if (isObject && !handle.pointer)
      return Error{
          fmt::format("NPU {}: AscendCL cannot make argument {} of {}: {}; the log files of CANN (~/ascend/log) "
                      "have more",
                      context->number, handles.size(), one.name, acl.getRecentErrMsg())};
  }
  return ok();
}

Status BoundOperator::prepare() {
  return context->check(one.first(functions.first, handles, &workspaceBytes, &executor),
                        fmt::format("prepare {}", one.name));
}

Result<std::unique_ptr<BoundOperator>> BoundOperator::bind(const std::shared_ptr<Context> &context,
                                                           const OperatorCall &call) {
  if (Status status = context->use(); !status)
    return status.error();
  std::unique_ptr<BoundOperator> bound(new BoundOperator(context, *call.one));
  auto functions = context->find(*call.one);
  if (!functions)
    return functions.error();
  bound->functions = *functions;
  if (Status made = bound->makeHandles(call.arguments); !made)
    return made.error();
  if (Status prepared = bound->prepare(); !prepared)
    return prepared.error();
  context->workspaceBytes = std::max(context->workspaceBytes, int64_t(bound->workspaceBytes));
  bound->isRepeatable = context->acl.setRepeatable(bound->executor) == 0;
  if (!bound->isRepeatable)
    context->needsHost = true; // each launch makes an executor
  return bound;
}

BoundOperator::~BoundOperator() {
  const Acl &acl = context->acl;
  context->prepareRelease();
  if (executor && isRepeatable)
    acl.destroyExecutor(executor);
  for (size_t i = 0; i < handles.size(); ++i) {
    void *object = handles[i].pointer;
    switch (one.kinds[i]) {
    case Kind::In:
    case Kind::MaybeIn:
    case Kind::Out:
    case Kind::MaybeOut:
    case Kind::InOut:
      if (object)
        acl.destroyTensor(object);
      break;
    case Kind::Scalar:
      if (object)
        acl.destroyScalar(object);
      break;
    case Kind::Ints:
      if (object)
        acl.destroyIntArray(object);
      break;
    case Kind::Bools:
      if (object)
        acl.destroyBoolArray(object);
      break;
    default:
      break;
    }
  }
}

Status BoundOperator::launch(AscendStream &stream) {
  if (!executor)
    if (Status prepared = prepare(); !prepared)
      return prepared;
  void *workspace = nullptr;
  if (workspaceBytes > 0) {
    context->workspaceBytes = std::max(context->workspaceBytes, int64_t(workspaceBytes));
    auto memory = stream.workspace();
    if (!memory)
      return memory.error();
    workspace = *memory;
  }
  AclResult result = functions.second(workspace, workspaceBytes, executor, stream.stream);
  if (!isRepeatable)
    executor = nullptr; // it is used up
  return result == 0 ? ok() : context->check(result, fmt::format("launch {}", one.name));
}

Result<std::vector<Launch>> launchesOf(const std::shared_ptr<Context> &context, std::vector<Call> calls) {
  std::vector<Launch> launches;
  for (Call &call : calls) {
    if (const auto *operation = std::get_if<OperatorCall>(&call)) {
      auto bound = BoundOperator::bind(context, *operation);
      if (!bound)
        return bound.error();
      launches.emplace_back(std::move(*bound));
    } else if (auto *host = std::get_if<HostCall>(&call)) {
      context->needsHost = true;
      launches.emplace_back(std::make_unique<HostCall>(std::move(*host)));
    } else if (const auto *copy = std::get_if<CopyCall>(&call)) {
      launches.emplace_back(*copy);
    } else {
      launches.emplace_back(std::get<ClearCall>(call));
    }
  }
  return launches;
}

namespace {
Status launchOne(Launch &launch, AscendStream &stream) {
  if (auto *operation = std::get_if<std::unique_ptr<BoundOperator>>(&launch))
    return (*operation)->launch(stream);
  if (const auto *copy = std::get_if<CopyCall>(&launch))
    return stream.copy(copy->to, copy->from, copy->bytes, copy->kind);
  if (const auto *clear = std::get_if<ClearCall>(&launch))
    return stream.clear(clear->to, clear->bytes);
  auto call = [](void *function) { (*static_cast<HostCall *>(function))(); };
  const Context &context = *stream.context;
  return context.check(
      context.acl.launchHostFunc(stream.stream, call, std::get<std::unique_ptr<HostCall>>(launch).get()),
      "call a function of the host");
}
} // namespace

Status launchAll(std::vector<Launch> &launches, AscendStream &stream) {
  if (Status status = stream.context->use(); !status)
    return status;
  for (Launch &launch : launches)
    if (Status status = launchOne(launch, stream); !status)
      return status;
  return ok();
}

} // namespace kerf::runtime::ascend
