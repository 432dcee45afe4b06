// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/HuggingFace.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

namespace kerf {
namespace {

class HuggingFaceTest : public testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/kerf-hf-XXXXXX";
    folder = mkdtemp(pattern);
    for (int i = 0; i < 5; ++i) {
      auto [tensor, bytes] = allocateTensor(DType::F32, {10});
      for (int e = 0; e < 10; ++e) {
        float value = float(i * 10 + e);
        std::memcpy(bytes + 4 * e, &value, 4);
      }
      tensors.emplace("layer." + std::to_string(i), tensor);
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
  void expectTensors() const {
    auto read = readHuggingFaceWeights(folder);
    ASSERT_TRUE(read) << read.error().message;
    ASSERT_TRUE(read->has_value());
    ASSERT_EQ((*read)->size(), tensors.size());
    for (const auto &[name, tensor] : tensors)
      EXPECT_EQ(std::memcmp((*read)->at(name).data, tensor.data, 40), 0) << name;
  }

  std::string folder;
  TensorMap tensors;
};

TEST_F(HuggingFaceTest, OneFile) {
  ASSERT_TRUE(writeHuggingFace(folder, tensors, R"({"model_type": "gpt2", "torch_dtype": "bfloat16"})"));
  EXPECT_EQ(files(), (std::vector<std::string>{"config.json", "model.safetensors"}));
  expectTensors();
  auto config = nlohmann::json::parse(*readFile(folder + "/config.json"));
  EXPECT_EQ(config["model_type"], "gpt2");
  EXPECT_EQ(config["dtype"], "float32");
  EXPECT_EQ(config["torch_dtype"], "float32");
}

/// A file of at most 100 bytes holds two tensors of 40 bytes. A later save into one file removes the earlier files.
TEST_F(HuggingFaceTest, SeveralFiles) {
  ASSERT_TRUE(writeHuggingFace(folder, tensors, "", 100));
  EXPECT_EQ(files(), (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                               "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  expectTensors();
  auto index = nlohmann::json::parse(*readFile(folder + "/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 200);
  EXPECT_EQ(index["weight_map"]["layer.4"], "model-00003-of-00003.safetensors");
  ASSERT_TRUE(writeHuggingFace(folder, tensors, ""));
  EXPECT_EQ(files(), (std::vector<std::string>{"model.safetensors"}));
  ASSERT_TRUE(writeHuggingFace(folder, tensors, "", 100));
  EXPECT_EQ(files().size(), 4u);
  expectTensors();
}

TEST_F(HuggingFaceTest, FoldersWithoutWeights) {
  auto none = readHuggingFaceWeights(folder);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->has_value());
  ASSERT_TRUE(writeFile(folder + "/model.safetensors.index.json", R"({"weight_map": {"x": "../x.safetensors"}})"));
  auto outside = readHuggingFaceWeights(folder);
  ASSERT_FALSE(outside);
  EXPECT_NE(outside.error().message.find("must name a file in the same folder"), std::string::npos);
}

} // namespace
} // namespace kerf
