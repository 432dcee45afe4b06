// SPDX-License-Identifier: Apache-2.0
#include "kerf/Compiler/KernelProfile.h"
#include "kerf/Support/Csv.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

TEST(KernelProfile, NamesTellTheClassOfAKernel) {
  const std::pair<std::string_view, ProfiledKernel> cases[] = {
      {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", ProfiledKernel::Product},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", ProfiledKernel::Product},
      {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT", ProfiledKernel::Product},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, float>(...)", ProfiledKernel::Product},
      {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816>(...)", ProfiledKernel::Product},
      {"triton_tem_fused_mm_0", ProfiledKernel::Product},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(...)", ProfiledKernel::Attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16", ProfiledKernel::Attention},
      {"void pytorch_flash::flash_bwd_convert_dq_kernel<...>", ProfiledKernel::Attention},
      {"triton_tem_fused_flex_attention_1", ProfiledKernel::Attention},
      {"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(...)", ProfiledKernel::Collective},
      {"triton_poi_fused_add_mm_3", ProfiledKernel::Memory},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...>", ProfiledKernel::Memory},
      {"Memcpy DtoH (Device -> Pinned)", ProfiledKernel::Copy}};
  for (const auto &[name, kind] : cases)
    EXPECT_EQ(classOfKernel(name), kind) << name;
}

TEST(KernelProfile, TracesAreReadWhereverTheirEventsStand) {
  const std::string event = R"({"args": {"dur": 7, "name": "gemm", "list": [{"dur": 8}]}, "ph": "X", "cat": "kernel",
                                "name": "gemm", "dur": 2000000})";
  for (const std::string &text : {"[" + event + "]", R"({"deviceProperties": [{"dur": 1}], "traceEvents": [)" + event +
                                                         R"(], "other": [)" + event + "]}"}) {
    auto profile = parseKernelProfile(text, "trace.json");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->kernels, 1);
    EXPECT_EQ(profile->steps, 0);
    EXPECT_DOUBLE_EQ(profile->of(ProfiledKernel::Product), 2);
  }
}

TEST(KernelProfile, UnitsOfNsightsTablesAreRead) {
  for (const auto &[unit, number] : {std::pair("ns", "3000000"), std::pair("us", "3000"), std::pair("ms", "3")}) {
    auto profile = parseKernelProfile(std::string("\"Time (%)\",\"Total Time (") + unit + ")\",Instances,Name\n50.0," +
                                          number + ",12,\"flash_fwd_kernel<a, b>\"\n",
                                      "kernels.csv");
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_DOUBLE_EQ(profile->of(ProfiledKernel::Attention), 3e-3);
    EXPECT_EQ(profile->kernels, 12);
  }
}

TEST(Csv, CellsMayHoldCommasQuotesAndLines) {
  auto records = csvRecords("a,\"b, \"\"c\"\"\"\r\n\n\"d\ne\",\n");
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0], (std::vector<std::string>{"a", "b, \"c\""}));
  EXPECT_EQ(records[1], (std::vector<std::string>{"d\ne", ""}));
  EXPECT_EQ(trimmed("  x y "), "x y");
  EXPECT_EQ(lowerCase("NCCL-a"), "nccl-a");
}

TEST(Csv, NumbersAreWholeCells) {
  EXPECT_EQ(positiveNumber("2.5e3"), 2500);
  for (const char *cell : {"", "0", "-1", "1x", " 1", "nan", "inf", "1e999"})
    EXPECT_FALSE(positiveNumber(cell)) << cell;
}

} // namespace
} // namespace kerf
