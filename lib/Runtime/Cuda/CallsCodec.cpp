// SPDX-License-Identifier: Apache-2.0
// Calls of the ops of codecs (Kernels/Codec.cu): random_key, random, pack and unpack.
#include "CallsSort.h"
#include "Kernels/ParametersCodec.h"

namespace kerf::runtime::cuda {

namespace {
template <typename P> Calls callOn(std::string_view entry, int64_t work, const P &parameters) {
  Calls calls;
  addElementCall(calls, "Codec", DType::F32, entry, work, parameters);
  return calls;
}

Calls packing(const CallRequest &r, std::string_view entry, const TensorView &packed) {
  return callOn(entry, packed.elements(),
                PackingParameters{static_cast<const uint8_t *>(r.operand(0).data),
                                  static_cast<uint8_t *>(r.result().data), packed.elements(), packed.shape.back(),
                                  int32_t(r.integer("bits"))});
}
} // namespace

Result<Calls> callRandomKey(const CallRequest &r) {
  return callOn("randomKey", 1,
                RandomKeyParameters{static_cast<const int64_t *>(r.operand(0).data),
                                    static_cast<const int64_t *>(r.operand(1).data),
                                    static_cast<uint32_t *>(r.result().data), r.integer("stream"), r.position("axes")});
}

Result<Calls> callRandom(const CallRequest &r) {
  int64_t n = r.result().elements();
  return callOn("hashUniforms", n,
                HashUniformParameters{static_cast<const uint32_t *>(r.operand(0).data),
                                      static_cast<float *>(r.result().data), n});
}

Result<Calls> callPack(const CallRequest &r) { return packing(r, "packBytes", r.result()); }
Result<Calls> callUnpack(const CallRequest &r) { return packing(r, "unpackBytes", r.operand(0)); }

} // namespace kerf::runtime::cuda
