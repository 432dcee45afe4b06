// SPDX-License-Identifier: Apache-2.0
#include "kerf/Support/Suggest.h"
#include <gtest/gtest.h>

using namespace kerf;

TEST(Suggest, MisspelledWordsAreNearTheirWord) {
  const std::vector<std::string> keys = {"mesh", "order", "bandwidth", "memory_bandwidth", "node_bandwidth", "latency"};
  EXPECT_EQ(nearestWord("mesch", keys), "mesh");
  EXPECT_EQ(nearestWord("bandwith", keys), "bandwidth");
  EXPECT_EQ(nearestWord("Memory-Bandwidth", keys), "memory_bandwidth");
  EXPECT_EQ(nearestWord("lantency", keys), "latency");
  EXPECT_EQ(nearestWord("odrer", keys), "order") << "two letters swapped";
  EXPECT_EQ(nearestWord("microbatch", keys), "");
  EXPECT_EQ(nearestWord("x", keys), "");
  EXPECT_EQ(nearestWord("", keys), "");
}

TEST(Suggest, OfSeveralTheNearestIsTaken) {
  EXPECT_EQ(nearestWord("--optimiser", {"--optimizer", "--optimizer-x"}), "--optimizer");
  EXPECT_EQ(nearestWord("beta", {"beta1", "beta2"}), "beta1") << "the first of equals";
}

TEST(Suggest, WithoutANearOneAllAreListed) {
  EXPECT_EQ(suggestion("mesch", {"mesh", "order"}), "did you mean \"mesh\"?");
  EXPECT_EQ(suggestion("colour", {"mesh", "size"}), "known are mesh, size");
}
