// SPDX-License-Identifier: Apache-2.0
// Compares kernels with PyTorch's results (golden.json, written by make_golden.py), in float64 and float32.
#include "KernelTestSupport.h"

#include <fstream>

namespace kerf::runtime::test {
namespace {

HostTensor tensorFrom(const Json &json, DType floating) {
  HostTensor tensor{*parseDType(json[0].get<std::string>()), json[1].get<Shape>(), {}};
  if (tensor.dtype == DType::F64)
    tensor.dtype = floating;
  for (const Json &value : json[2])
    tensor.values.push_back(value.is_boolean() ? double(value.get<bool>()) : value.get<double>());
  return tensor;
}

TEST(Golden, KernelsGivePyTorchsResults) {
  std::ifstream file(KERF_GOLDEN_FILE);
  Json cases = Json::parse(file, nullptr, /*allow_exceptions=*/false);
  ASSERT_TRUE(cases.is_array()) << KERF_GOLDEN_FILE;
  ASSERT_EQ(cases.size(), 20u);
  for (const Json &c : cases)
    for (DType dtype : {DType::F64, DType::F32}) {
      std::string op = c["op"].get<std::string>();
      SCOPED_TRACE(op + " " + std::string(toString(dtype)));
      std::vector<HostTensor> operands, expected;
      std::vector<ResultType> types;
      for (const Json &operand : c["operands"])
        operands.push_back(tensorFrom(operand, dtype));
      for (const Json &result : c["results"]) {
        expected.push_back(tensorFrom(result, dtype));
        types.push_back({dtype, expected.back().shape});
      }
      std::vector<HostTensor> actual = runKernel(op, c["attrs"], operands, types);
      for (size_t i = 0; i < expected.size(); ++i)
        expectNear(actual[i], expected[i].values, dtype == DType::F64 ? 1e-12 : 1e-5, "result " + std::to_string(i));
    }
}

} // namespace
} // namespace kerf::runtime::test
