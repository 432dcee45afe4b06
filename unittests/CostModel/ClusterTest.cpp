// SPDX-License-Identifier: Apache-2.0
// Tests of cluster files: what is read, what is rejected with which message, the first ranks, and the files
// that Kerf provides.
#include "kerf/CostModel/Cluster.h"
#include "kerf/CostModel/Dtypes.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace kerf;

namespace {

const std::string kGood = R"({"name": "two nodes",
  "device": {"kind": "cuda", "name": "A100", "memory_bytes": 1e9, "peak_flops": {"f32": 2e13, "bf16": 3e14},
             "memory_bandwidth": 2e12, "cores": 108},
  "levels": [{"name": "nvlink", "size": 4, "bandwidth": 3e11, "latency": 1e-6},
             {"name": "infiniband", "size": 2, "bandwidth": 25e9, "latency": 5e-6, "node_bandwidth": 5e10}],
  "price_per_hour": 2.5, "source": {"device": "a test"}})";

std::string with(const std::string &what, const std::string &instead) {
  std::string text = kGood;
  size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), instead);
}

void expectRefused(const std::string &json, const std::string &words) {
  Result<Cluster> cluster = parseCluster(json, "c.json");
  ASSERT_FALSE(static_cast<bool>(cluster)) << words;
  EXPECT_NE(cluster.error().message.find(words), std::string::npos) << cluster.error().message;
  EXPECT_NE(cluster.error().message.find("c.json"), std::string::npos) << cluster.error().message;
}

} // namespace

TEST(Cluster, ReadsEverything) {
  Result<Cluster> cluster = parseCluster(kGood, "c.json");
  ASSERT_TRUE(static_cast<bool>(cluster)) << cluster.error().message;
  EXPECT_EQ(cluster->name, "two nodes");
  EXPECT_EQ(cluster->device.kind, "cuda");
  EXPECT_EQ(cluster->device.memoryBytes, 1'000'000'000);
  EXPECT_EQ(cluster->device.peakFlops.at("bf16"), 3e14);
  EXPECT_EQ(cluster->pricePerHour, 2.5);
  EXPECT_EQ(cluster->source.at("device"), "a test");
  ASSERT_EQ(cluster->levels.size(), 2u);
  EXPECT_EQ(cluster->levels[0].nodeBandwidth, 3e11) << "one device below";
  EXPECT_EQ(cluster->levels[1].nodeBandwidth, 5e10);
  EXPECT_EQ(cluster->ranks(), 8);
  EXPECT_EQ(cluster->devicesPerUnit(0), 4);
  EXPECT_EQ(cluster->devicesPerUnit(1), 8);
}

TEST(Cluster, NodeBandwidthDefaultsToDevicesTimesBandwidth) {
  Result<Cluster> cluster = parseCluster(with(R"(, "node_bandwidth": 5e10)", ""), "c.json");
  ASSERT_TRUE(static_cast<bool>(cluster));
  EXPECT_EQ(cluster->levels[1].nodeBandwidth, 4 * 25e9);
}

TEST(Cluster, RefusesWhatIsWrongByName) {
  expectRefused("{", "not JSON");
  expectRefused("[]", "is of type array; must be an object {\"key\": value}");
  expectRefused("{}", "lacks \"device\"");
  expectRefused(with("\"memory_bytes\": 1e9", "\"memory_bytes\": 0"), "device: memory_bytes is 0");
  expectRefused(with("\"memory_bytes\": 1e9", "\"memory_bytes\": 1.5"), "memory_bytes is 1.5");
  expectRefused(with("\"memory_bytes\": 1e9", "\"memory_bytes\": 1e300"), "memory_bytes is 1e+300");
  expectRefused(with("\"memory_bandwidth\": 2e12, ", ""), "device: lacks \"memory_bandwidth\"");
  expectRefused(with("\"f32\": 2e13", "\"f32\": -1"), "peak_flops.f32 is -1");
  expectRefused(with("{\"f32\": 2e13, \"bf16\": 3e14}", "{}"), "peak_flops is {}; must be");
  expectRefused(with("\"size\": 4", "\"size\": 0"), "levels[0]: size is 0");
  expectRefused(with("\"size\": 2", "\"size\": 1000000000000"), "are more than");
  expectRefused(with("\"bandwidth\": 25e9", "\"bandwidth\": \"fast\""), "levels[1]: bandwidth is \"fast\"");
  expectRefused(with("\"latency\": 1e-6", "\"latency\": -1e-6"), "levels[0]: latency");
  expectRefused(with("\"latency\": 1e-6", "\"x\": 0"), "levels[0]: has the unknown key \"x\"; known are name");
  expectRefused(with("\"size\": 4, \"bandwidth\": 3e11, \"latency\": 1e-6", "\"size\": 4, \"bandwidth\": 3e11"),
                "levels[0]: lacks \"latency\"");
  expectRefused(with("\"price_per_hour\": 2.5", "\"price_per_hour\": -1"), "price_per_hour");
  expectRefused(with("{\"device\": \"a test\"}", "3"), "source is 3; must be an object");
  expectRefused(with("\"price_per_hour\"", "\"ranks\": 9, \"price_per_hour\""),
                "ranks is 9, but the levels hold 8; give 8 or fewer");
}

TEST(Cluster, KeysThatAreNotKnownAreRefusedWithTheirPlace) {
  expectRefused(with("\"bandwidth\": 25e9", "\"bandwith\": 25e9"),
                "c.json, line 5, column 48: levels[1]: has the unknown key \"bandwith\"; did you mean \"bandwidth\"?");
  expectRefused(with("\"cores\"", "\"core\""), "device: has the unknown key \"core\"; did you mean \"cores\"?");
  expectRefused(with("\"price_per_hour\"", "\"price\""), "has the unknown key \"price\"");
  expectRefused(with("\"bf16\"", "\"fp16\""), "peak_flops has the unknown dtype \"fp16\"; did you mean \"f16\"?");
  expectRefused(with("\"cores\": 108", "\"curves\": {\"sustaind\": 1}"), "did you mean \"sustained\"?");
  expectRefused(with("\"latency\": 1e-6", "\"latency\": 1e-6, \"latency\": 2e-6"), "\"latency\" occurs twice");
  EXPECT_TRUE(parseCluster(with("\"source\"", "\"notes\": [\"mine\"], \"source\""), "c.json")) << "people's own";
}

TEST(Cluster, NumbersInAnotherUnitAreRefusedWithTheOneThatWasMeant) {
  expectRefused(with("\"bandwidth\": 25e9", "\"bandwidth\": 25"),
                "levels[1]: bandwidth is 25 bytes/s, which no device or link has (100000 to 1e+16); the file's unit is "
                "bytes/s: write 25000000000 for 25 GB/s");
  expectRefused(with("\"bandwidth\": 25e9", "\"bandwidth\": 25000"), "write 25000000000 for 25000 MB/s");
  expectRefused(with("\"node_bandwidth\": 5e10", "\"node_bandwidth\": 50"), "write 50000000000 for 50 GB/s");
  expectRefused(with("\"bf16\": 3e14", "\"bf16\": 312"), "peak_flops.bf16 is 312 FLOP/s");
  expectRefused(with("\"bf16\": 3e14", "\"bf16\": 312"), "write 312000000000000 for 312 TFLOP/s");
  expectRefused(with("\"bf16\": 3e14", "\"bf16\": 312000"), "write 312000000000000 for 312000 GFLOP/s");
  expectRefused(with("\"memory_bytes\": 1e9", "\"memory_bytes\": 80"), "write 85899345920 for 80 GiB");
  expectRefused(with("\"memory_bytes\": 1e9", "\"memory_bytes\": 40960"), "write 42949672960 for 40960 MiB");
  expectRefused(with("\"memory_bandwidth\": 2e12", "\"memory_bandwidth\": 2039"), "write 2039000000000 for 2039 GB/s");
  expectRefused(with("\"latency\": 5e-6", "\"latency\": 5"), "write 5e-06 for 5 microseconds");
  expectRefused(with("\"bandwidth\": 25e9", "\"bandwidth\": 25e18"), "bandwidth is 2.5e+19 bytes/s, which no device");
}

TEST(Cluster, TypesThatADeviceHasNoFigureForAreRefused) {
  Cluster cluster = *parseCluster(kGood, "c.json");
  EXPECT_TRUE(checkDtype(cluster, "bf16"));
  ASSERT_FALSE(checkDtype(cluster, "f16"));
  EXPECT_EQ(checkDtype(cluster, "f16").error().message,
            "device 'A100' does not compute in f16: its peak_flops has bf16, f32; give <dtype> f32, or add "
            "peak_flops.f16 to the cluster file if the device has it");
  cluster.device.kind = "cpu";
  EXPECT_TRUE(checkDtype(cluster, "f16"));
}

TEST(Cluster, WritingAndReadingGivesTheSame) {
  Result<Cluster> cluster = firstRanks(*parseCluster(kGood, "c.json"), 7);
  std::string text = toJson(*cluster);
  Result<Cluster> again = parseCluster(text, "again");
  ASSERT_TRUE(static_cast<bool>(again)) << again.error().message;
  EXPECT_EQ(again->ranks(), 7);
  EXPECT_EQ(toJson(*again), text);
}

TEST(Cluster, FirstRanksFillTheInnermostLevelFirst) {
  Cluster cluster = *parseCluster(kGood, "c.json");
  auto sizes = [&](int64_t ranks) {
    std::vector<int64_t> sizes;
    Cluster first = *firstRanks(cluster, ranks);
    for (const Level &level : first.levels)
      sizes.push_back(level.size);
    return sizes;
  };
  EXPECT_EQ(sizes(1), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(sizes(3), (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(sizes(4), (std::vector<int64_t>{4, 1}));
  EXPECT_EQ(sizes(5), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(sizes(8), (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(firstRanks(cluster, 5)->ranks(), 5);
  EXPECT_FALSE(static_cast<bool>(firstRanks(cluster, 9)));
  EXPECT_FALSE(static_cast<bool>(firstRanks(cluster, 0)));
  EXPECT_FALSE(static_cast<bool>(firstRanks(*firstRanks(cluster, 5), 6)));
}

TEST(Cluster, ThisMachineIsTheSameTwice) {
  for (int64_t ranks : {1, 2, 3, 4, 64}) {
    Result<Cluster> cluster = thisMachine(ranks);
    ASSERT_TRUE(static_cast<bool>(cluster));
    EXPECT_EQ(cluster->ranks(), ranks);
    EXPECT_EQ(toJson(*cluster), toJson(*thisMachine(ranks)));
    Result<Cluster> read = parseCluster(toJson(*cluster), "this machine");
    EXPECT_TRUE(static_cast<bool>(read)) << read.error().message;
  }
  EXPECT_LT(thisMachine(64)->device.memoryBytes, thisMachine(1)->device.memoryBytes);
  EXPECT_FALSE(static_cast<bool>(thisMachine(0)));
  EXPECT_FALSE(static_cast<bool>(thisMachine(1'000'000)));
}

TEST(Cluster, TheFilesThatComeWithKerf) {
  for (const auto &[file, ranks] : std::vector<std::pair<std::string, int64_t>>{
           {"dgx-a100", 128}, {"dgx-h100", 128}, {"v100-nodes", 64}, {"ascend-910b", 128}, {"cpu-4", 4}}) {
    Result<Cluster> cluster = readCluster(std::string(KERF_CLUSTERS) + "/" + file + ".json");
    ASSERT_TRUE(static_cast<bool>(cluster)) << cluster.error().message;
    EXPECT_EQ(cluster->ranks(), ranks);
    EXPECT_FALSE(cluster->source.empty());
  }
}

TEST(Cluster, EveryFileIsReadAndWrittenAlike) {
  int files = 0;
  for (const auto &entry : std::filesystem::directory_iterator(KERF_CLUSTERS)) {
    SCOPED_TRACE(entry.path().string());
    Result<Cluster> cluster = readCluster(entry.path().string());
    ASSERT_TRUE(static_cast<bool>(cluster)) << cluster.error().message;
    EXPECT_FALSE(cluster->source.empty());
    EXPECT_EQ(toJson(*parseCluster(toJson(*cluster), "again")), toJson(*cluster));
    for (const Cluster &part : cluster->mixed() ? cluster->groups : std::vector<Cluster>{*cluster})
      EXPECT_TRUE(part.device.kind == "cpu" || part.device.hostBandwidth > 0);
    ++files;
  }
  EXPECT_GE(files, 20);
}

TEST(Cluster, CurvesAreTheFilesOwnOrTheKnownDevices) {
  const std::string text = R"({"name": "x", "device": {"kind": "cuda", "name": "A100-SXM4-80GB", "memory_bytes": 8e10,
    "peak_flops": {"f16": 1e12}, "memory_bandwidth": 1e9, "curves": {"sustained": 0.8, "processors": 7}},
    "levels": [{"name": "l", "size": 2, "bandwidth": 1e9, "latency": 0, "switch_bandwidth": 5e9}]})";
  Cluster cluster = *parseCluster(text, "c.json");
  DeviceCurves usual = *knownCurves("cuda", "A100-SXM4-80GB");
  EXPECT_EQ(cluster.device.curves.sustained, 0.8);
  EXPECT_EQ(cluster.device.curves.processors, 7);
  EXPECT_EQ(cluster.device.curves.productEfficiency, usual.productEfficiency);
  EXPECT_EQ(cluster.levels[0].switchBandwidth, 5e9);
  Cluster again = *parseCluster(toJson(cluster), "c.json");
  EXPECT_EQ(again.device.curves, cluster.device.curves);
  EXPECT_EQ(again.levels[0].switchBandwidth, 5e9);
  auto broken = [&](const char *from, const char *to) {
    std::string changed = text;
    changed.replace(changed.find(from), std::string(from).size(), to);
    Result<Cluster> result = parseCluster(changed, "c.json");
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(broken("0.8", "1.8"), "cluster file c.json: device.curves: sustained is 1.8; a share is at most 1");
  EXPECT_NE(broken("7", "-7").find("processors is -7"), std::string::npos);
}

/// A device without measurements must not be priced as another device.
TEST(Cluster, UnknownDevicesAreRefusedUnlessTheFileDescribesThem) {
  const std::string known = "cuda (V100, T4, A100, H100, H800, H200, B200), ascend (Ascend 910B, Ascend 910A), cpu";
  expectRefused(with("\"A100\"", "\"MI300X\""),
                "device: Kerf has no efficiency curves for kind \"cuda\" with name \"MI300X\"; it has curves for " +
                    known);
  expectRefused(with("\"cuda\"", "\"rocm\""), "kind \"rocm\" with name \"A100\"");
  expectRefused(with("\"cuda\"", "\"ascend\""), "describe the device by device.curves (docs/clusters.md)");
  expectRefused(with("\"name\": \"A100\", ", ""), "kind \"cuda\" with name \"\"");
  const std::string curves = R"("curves": {"processors": 304, "product_efficiency": 0.7, "product_overhead_k": 100,
    "product_quantization": 0.1, "attention_efficiency": 0.3, "attention_half_length": 900, "memory_efficiency": 0.8,
    "launch_seconds": 2e-6, "collective_seconds": 9e-6, "sustained": 0.9, "context_bytes": 1e9})";
  std::string described = with("\"cuda\", \"name\": \"A100\"", "\"rocm\", \"name\": \"MI300X\"");
  described.replace(described.find("\"cores\": 108"), 12, curves);
  Result<Cluster> cluster = parseCluster(described, "c.json");
  ASSERT_TRUE(cluster) << cluster.error().message;
  EXPECT_EQ(cluster->device.curves.processors, 304);
  EXPECT_EQ(cluster->device.curves.contextBytes, 1e9);
  EXPECT_EQ(parseCluster(toJson(*cluster), "again")->device.curves, cluster->device.curves);
  described.replace(described.find("\"sustained\": 0.9, "), 18, "");
  expectRefused(described, "where sustained is missing");
}

TEST(Cluster, TheLinkToTheHost) {
  EXPECT_EQ(parseCluster(kGood, "c.json")->device.hostBandwidth, 0);
  Cluster cluster = *parseCluster(with("\"cores\": 108", "\"host_bandwidth\": 25e9"), "c.json");
  EXPECT_EQ(cluster.device.hostBandwidth, 25e9);
  EXPECT_EQ(parseCluster(toJson(cluster), "again")->device.hostBandwidth, 25e9);
  expectRefused(with("\"cores\": 108", "\"host_bandwidth\": 25"), "host_bandwidth is 25 bytes/s");
}

TEST(Cluster, AFileThatIsNotThere) { EXPECT_FALSE(static_cast<bool>(readCluster("/nonexistent/c.json"))); }
