// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"

#include <gtest/gtest.h>

namespace kerf::codegen {
namespace {

TEST(LinkImage, WhatIsNoObjectIsRefused) {
  auto image = linkImage("no object", "x86-64-v3", {"kernel"});
  ASSERT_FALSE(image);
  EXPECT_NE(image.error().message.find("compiling kernels: "), std::string::npos) << image.error().message;
}

} // namespace
} // namespace kerf::codegen
