// SPDX-License-Identifier: Apache-2.0
#include "kerf/Runtime/Ascend/Properties.h"
#include "Context.h"

namespace kerf::runtime {

namespace {
/// Returns the name of a product as cluster files have it, from that of aclrtGetSocName: "Ascend910B3" is
/// "Ascend 910B3". A 910C calls itself "Ascend910_93" and two digits; each of its two devices is a die like a 910B.
std::string productOf(std::string_view soc) {
  constexpr std::string_view kMaker = "Ascend", kDieOf910C = "Ascend910_93";
  if (soc.starts_with(kDieOf910C))
    return "Ascend 910B, one of the two dies of a 910C";
  return soc.starts_with(kMaker) ? std::string("Ascend ").append(soc.substr(kMaker.size())) : std::string(soc);
}
} // namespace

Result<int64_t> npuCount() {
  auto acl = ascend::loadAcl();
  if (!acl)
    return acl.error();
  uint32_t count = 0;
  if (ascend::AclResult result = (*acl)->getDeviceCount(&count))
    return ascend::aclError(**acl, result, -1, "count the NPUs");
  return int64_t(count);
}

Result<DeviceProperties> npuProperties(int number) {
  auto opened = ascend::Context::open(number, false);
  if (!opened)
    return opened.error();
  const ascend::Context &npu = **opened;
  if (Status status = npu.use(); !status)
    return status.error();
  int64_t cores = 0;
  size_t free = 0, total = 0;
  for (ascend::AclResult result : {npu.acl.getDeviceCapability(uint32_t(number), ascend::kCoresForProducts, &cores),
                                   npu.acl.getMemInfo(ascend::kHighBandwidthMemory, &free, &total)})
    if (Status status = npu.check(result, "tell its properties"); !status)
      return status.error();
  const char *soc = npu.acl.getSocName();
  return DeviceProperties{productOf(soc ? soc : "Ascend"), int64_t(total), int64_t(free), cores,
                          npu.generation == ascend::Generation::First ? DType::F16 : DType::BF16};
}

} // namespace kerf::runtime
