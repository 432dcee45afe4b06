// SPDX-License-Identifier: Apache-2.0
#include "Context.h"

#include <fmt/format.h>

namespace kerf::runtime::ascend {

Generation generationOf(std::string_view name) {
  // "Ascend910A", "Ascend910PremiumA", "Ascend910ProB" and the plain "Ascend910" are the first generation; 910B with a
  // digit behind it ("Ascend910B3"), 910C ("Ascend910_9391") and 950 are later ones. Cluster files have a space in it.
  std::string text;
  for (char letter : name)
    if (letter != ' ')
      text += letter;
  bool isFirst = text == "Ascend910" || text == "Ascend910A" || name == "Ascend910B" ||
                 text.starts_with("Ascend910Pro") || text.starts_with("Ascend910Premium");
  return isFirst ? Generation::First : Generation::Later;
}

Result<std::shared_ptr<Context>> Context::open(int number, bool deterministic) {
  auto acl = loadAcl();
  if (!acl)
    return acl.error();
  const Acl &a = **acl;
  auto failed = [&](AclResult result, std::string_view what) { return aclError(a, result, number, what); };
  uint32_t count = 0;
  if (AclResult result = a.getDeviceCount(&count))
    return aclError(a, result, -1, "count the NPUs");
  if (number < 0 || int64_t(number) >= int64_t(count))
    return Error{
        fmt::format("there is no NPU {}: this machine has {}; use as many ranks on a machine as it has NPUs, or "
                    "name one as ascend:0",
                    number, count == 0 ? std::string("none") : fmt::format("{} (0 to {})", count, count - 1)),
        ExitStatus::Infeasible};
  if (AclResult result = a.setDevice(number))
    return failed(result, "be opened");
  AclContext context = nullptr;
  AclResult result = a.getCurrentContext(&context);
  if (result == 0 && deterministic)
    result = a.setSysParamOpt(kDeterministic, 1); // before the first operator of this thread
  if (result != 0) {
    Error error = failed(result, "be opened");
    a.resetDevice(number);
    return error;
  }
  const char *name = a.getSocName();
  return std::shared_ptr<Context>(new Context(a, number, generationOf(name ? name : ""), context));
}

Context::~Context() {
  prepareRelease();
  acl.resetDevice(number);
}

Status Context::use() const { return check(acl.setCurrentContext(context), "be used"); }

void Context::prepareRelease() const { (void)use(); }

Status Context::check(AclResult result, std::string_view what) const {
  return result == 0 ? ok() : Status(aclError(acl, result, number, what));
}

Result<OperatorFunctions> Context::find(const Operator &one) {
  auto [found, isNew] = functions.try_emplace(one.name);
  if (!isNew)
    return found->second;
  auto loaded = findOperator(acl, one);
  if (!loaded) {
    functions.erase(found);
    return loaded.error();
  }
  return found->second = *loaded;
}

Result<std::shared_ptr<std::byte>> allocateOfNpu(const std::shared_ptr<Context> &context, int64_t bytes) {
  if (Status status = context->use(); !status)
    return status.error();
  if (bytes == 0)
    return std::shared_ptr<std::byte>();
  const Acl &acl = context->acl;
  void *address = nullptr;
  if (AclResult result = acl.malloc(&address, size_t(bytes), kHugePagesFirst)) {
    size_t free = 0, total = 0;
    acl.getMemInfo(kHighBandwidthMemory, &free, &total);
    Error error = aclError(acl, result, context->number,
                           fmt::format("allocate {} bytes ({} of its {} bytes are free)", bytes, free, total));
    error.status = ExitStatus::Infeasible;
    return error;
  }
  return std::shared_ptr<std::byte>(static_cast<std::byte *>(address), [context](std::byte *memory) {
    context->prepareRelease();
    context->acl.free(memory);
  });
}

Result<std::shared_ptr<std::byte>> allocatePinned(const std::shared_ptr<Context> &context, int64_t bytes) {
  if (Status status = context->use(); !status)
    return status.error();
  if (bytes == 0)
    return std::shared_ptr<std::byte>();
  void *memory = nullptr;
  if (Status status = context->check(context->acl.mallocHost(&memory, size_t(bytes)),
                                     fmt::format("lock {} bytes of host memory for copies", bytes));
      !status)
    return status.error();
  return std::shared_ptr<std::byte>(static_cast<std::byte *>(memory), [context](std::byte *memory) {
    context->prepareRelease();
    context->acl.freeHost(memory);
  });
}

} // namespace kerf::runtime::ascend
