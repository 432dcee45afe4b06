// SPDX-License-Identifier: Apache-2.0
// Kerf's own numbers and structures of CANN's interface beside those of its headers, which test/ascend/declarations.py
// finds in the Python package torch-npu. It compiles this file; nothing runs it.
#include "../../lib/Runtime/Ascend/Exchanges.h"
#include "../../lib/Runtime/Ascend/Operators.h"

#include <acl/acl.h>
#include <cstddef>
#include <hccl/hccl.h>

namespace kerf::runtime::ascend {

static_assert(kHugePagesFirst == ACL_MEM_MALLOC_HUGE_FIRST);
static_assert(kHostToDevice == ACL_MEMCPY_HOST_TO_DEVICE && kDeviceToHost == ACL_MEMCPY_DEVICE_TO_HOST &&
              kDeviceToDevice == ACL_MEMCPY_DEVICE_TO_DEVICE);
static_assert(kHighBandwidthMemory == ACL_HBM_MEM);
static_assert(kCoresForProducts == ACL_DEVICE_INFO_AI_CORE_NUM);
static_assert(kStreamComplete == ACL_STREAM_STATUS_COMPLETE);
static_assert(kFastLaunch == ACL_STREAM_FAST_LAUNCH && kFastSynchronize == ACL_STREAM_FAST_SYNC);
static_assert(kTimedEvent == ACL_EVENT_TIME_LINE && kWaitedEvent == ACL_EVENT_SYNC);
static_assert(kStopOnFailure == ACL_STOP_ON_FAILURE);
static_assert(kDeterministic == ACL_OPT_DETERMINISTIC);
static_assert(kThreadLocalCapture == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
static_assert(kAlreadyInitialized == ACL_ERROR_REPEAT_INITIALIZE && kOutOfMemory == ACL_ERROR_RT_MEMORY_ALLOCATION);
static_assert(kFormatNchw == ACL_FORMAT_NCHW && kFormatNd == ACL_FORMAT_ND && kFormatNcdhw == ACL_FORMAT_NCDHW &&
              kFormatNcl == ACL_FORMAT_NCL);
static_assert(kPackageCann == ACL_PKG_NAME_CANN);
static_assert(sizeof(AclPackageVersion) == sizeof(aclCANNPackageVersion) &&
              offsetof(AclPackageVersion, version) == offsetof(aclCANNPackageVersion, version));
static_assert(sizeof(AclResult) == sizeof(::aclError));

struct Row {
  DType dtype;
  aclDataType number;
};
constexpr Row kTypesOfCann[] = {
    {DType::F32, ACL_FLOAT}, {DType::F16, ACL_FLOAT16}, {DType::I8, ACL_INT8},    {DType::I32, ACL_INT32},
    {DType::U8, ACL_UINT8},  {DType::I16, ACL_INT16},   {DType::U16, ACL_UINT16}, {DType::U32, ACL_UINT32},
    {DType::I64, ACL_INT64}, {DType::U64, ACL_UINT64},  {DType::F64, ACL_DOUBLE}, {DType::Bool, ACL_BOOL},
    {DType::BF16, ACL_BF16},
};
constexpr bool areTypesOfCann() {
  for (const Row &row : kTypesOfCann)
    if (aclTypeOf(row.dtype) != row.number)
      return false;
  return true;
}
static_assert(areTypesOfCann());

static_assert(kHcclBytes == HCCL_DATA_TYPE_INT8);
static_assert(kSendItem == HCCL_SEND && kReceiveItem == HCCL_RECV);
static_assert(kHcclDeterministic == HCCL_DETERMINISTIC);
static_assert(sizeof(HcclRootInfo) == sizeof(::HcclRootInfo));
static_assert(sizeof(HcclValue) == sizeof(HcclConfigValue));
static_assert(sizeof(HcclItem) == sizeof(HcclSendRecvItem) &&
              offsetof(HcclItem, kind) == offsetof(HcclSendRecvItem, sendRecvType) &&
              offsetof(HcclItem, data) == offsetof(HcclSendRecvItem, buf) &&
              offsetof(HcclItem, count) == offsetof(HcclSendRecvItem, count) &&
              offsetof(HcclItem, type) == offsetof(HcclSendRecvItem, dataType) &&
              offsetof(HcclItem, peer) == offsetof(HcclSendRecvItem, remoteRank));

struct HcclRow {
  DType dtype;
  HcclDataType number;
};
constexpr HcclRow kTypesOfHccl[] = {
    {DType::I8, HCCL_DATA_TYPE_INT8},  {DType::I32, HCCL_DATA_TYPE_INT32}, {DType::F16, HCCL_DATA_TYPE_FP16},
    {DType::F32, HCCL_DATA_TYPE_FP32}, {DType::I64, HCCL_DATA_TYPE_INT64}, {DType::BF16, HCCL_DATA_TYPE_BFP16},
};
constexpr bool areTypesOfHccl() {
  for (const HcclRow &row : kTypesOfHccl)
    for (const LibraryNumbers::Type &ours : kHcclTypes)
      if (ours.dtype == row.dtype && ours.number != row.number)
        return false;
  return std::size(kTypesOfHccl) == std::size(kHcclTypes);
}
static_assert(areTypesOfHccl());
static_assert(kHcclCombines[0].number == HCCL_REDUCE_SUM && kHcclCombines[1].number == HCCL_REDUCE_MAX &&
              kHcclCombines[2].number == HCCL_REDUCE_MIN);

} // namespace kerf::runtime::ascend
