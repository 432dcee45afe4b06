// SPDX-License-Identifier: Apache-2.0
// Checkpoints of any plan read by any other plan, checkpoint folders after a crash at any moment, and damaged files.
#include "../../lib/Runtime/CheckpointDisk.h"
#include "../../lib/Runtime/CheckpointFiles.h"
#include "TestPrograms.h"
#include "kerf/Support/File.h"

#include <cctype>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

namespace kerf::runtime::test {
namespace {

namespace fs = std::filesystem;
using package::ArgKind;

class Checkpoints : public ::testing::Test {
protected:
  Checkpoints() {
    // The thousands of files are in a file system in memory if there is one.
    std::string pattern =
        fs::is_directory("/dev/shm") ? "/dev/shm/kerf-checkpoint-XXXXXX" : "/tmp/kerf-checkpoint-XXXXXX";
    root = mkdtemp(pattern.data());
    folder = root + "/saved";
  }
  ~Checkpoints() override { fs::remove_all(root); }

  void write(const std::string &path, const std::string &bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }
  void expect(const std::string &text, const std::vector<std::string> &parts) const {
    for (const std::string &part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << text << "\n lacks: " << part;
  }
  template <typename T> std::string message(const Result<T> &result) const {
    return result ? "no error" : result.error().message;
  }

  std::string root, folder;
};

/// Returns a program that has only arguments, because saving and reading need nothing else.
package::Program programOf(Mesh mesh, std::vector<package::Arg> args) {
  package::Program program;
  program.mesh = std::move(mesh);
  program.args = std::move(args);
  return program;
}

package::Arg argOf(const std::string &name, Shape shape, Sharding sharding, ArgKind kind = ArgKind::Parameter) {
  return {kind, name, DType::I32, shape, shape, std::move(sharding), -1, false};
}

Sharding cut(const Mesh &mesh, const Shape &shape, const std::vector<std::vector<int>> &axes) {
  Sharding sharding = Sharding::replicated(shape.size());
  for (size_t d = 0; d < axes.size(); ++d) {
    for (int axis : axes[d])
      sharding.dims[d].axes.push_back(wholeAxis(mesh, axis));
    if (!axes[d].empty())
      sharding.dims[d].chunk = defaultChunk(shape[d], sharding.dims[d].axes);
  }
  return sharding;
}

/// Returns element i of the row-major global tensor of that name.
int32_t element(const std::string &name, int64_t i) { return int32_t(i * 31 + int64_t(name.size()) * 7 + 1); }

/// Returns the local tensor of rank `rank`, computed by loops over the global tensor. Padding is -1.
std::vector<int32_t> localOf(const package::Program &program, const package::Arg &arg, int64_t rank) {
  Shape local = localShape(arg.shape, arg.sharding);
  std::vector<int32_t> values(size_t(elementsOf(local)), -1);
  for (int64_t i = 0; i < elementsOf(arg.shape); ++i) {
    int64_t rest = i, at = 0, stride = 1;
    bool here = true;
    for (size_t d = arg.shape.size(); d-- > 0; rest /= arg.shape[d]) {
      Extent extent = validExtent(arg.shape[d], arg.sharding.dims[d], program.mesh, rank);
      int64_t index = rest % arg.shape[d] - extent.begin;
      here = here && index >= 0 && index < extent.count;
      at += index * stride;
      stride *= local[d];
    }
    if (here)
      values[size_t(at)] = element(arg.name, i);
  }
  return values;
}

/// Writes one checkpoint from all ranks of the program.
Status saveAll(const package::Program &program, const CheckpointOptions &options, int64_t nextStep) {
  auto communicators = createThreadCommunicators(program.mesh.ranks());
  std::vector<Status> statuses(communicators.size(), ok());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < communicators.size(); ++rank)
    threads.emplace_back([&, rank] {
      auto writer = CheckpointWriter::create(program, options, *communicators[rank], nextStep);
      statuses[rank] = writer ? writer->save({nextStep, 5, 20},
                                             [&](size_t arg, std::byte *local) {
                                               auto values = localOf(program, program.args[arg], int64_t(rank));
                                               std::memcpy(local, values.data(), values.size() * sizeof(int32_t));
                                               return ok();
                                             })
                              : Status(writer.error());
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const Status &status : statuses)
    if (!status)
      return status;
  return ok();
}

CheckpointOptions into(const std::string &folder, int64_t every = 1, int64_t keep = 2) {
  return {folder, every, keep, {{"model", "test"}}, {}, {}};
}

/// Expects that every rank of `program` reads its local tensors back from a checkpoint.
void expectRead(const Checkpoint &checkpoint, const package::Program &program, const std::string &what) {
  Status fits = checkCheckpoint(checkpoint, program);
  ASSERT_TRUE(fits) << what << fits.error().message;
  for (int64_t rank = 0; rank < program.mesh.ranks(); ++rank) {
    ShardReader reader(checkpoint);
    for (const package::Arg &arg : program.args) {
      if (!staysBetweenSteps(arg))
        continue;
      std::vector<int32_t> expected = localOf(program, arg, rank), got(expected.size(), -1);
      Shard shard = shardOf(program.mesh, arg.shape, arg.sharding, rank);
      Status status = reader.read(arg, shard, reinterpret_cast<std::byte *>(got.data()));
      ASSERT_TRUE(status) << what << status.error().message;
      ASSERT_EQ(got, expected) << what << arg.name << " on rank " << rank;
    }
  }
}

package::Program twoTensors() {
  Mesh mesh{{{"data", 2}, {"model", 2}}};
  return programOf(mesh, {argOf("a.weight", {5, 6}, cut(mesh, {5, 6}, {{1}, {}})),
                          argOf("velocity/a.weight", {5, 6}, cut(mesh, {5, 6}, {{0, 1}, {}}), ArgKind::State),
                          argOf("scale", {}, Sharding::replicated(0), ArgKind::Buffer),
                          argOf("x", {8, 2}, Sharding::replicated(2), ArgKind::Input)});
}

TEST_F(Checkpoints, TheLowestRankThatHoldsABoxWritesIt) {
  auto index = planCheckpoint(twoTensors());
  ASSERT_TRUE(index) << index.error().message;
  ASSERT_EQ(index->tensors.size(), 3u); // not the input
  std::vector<int64_t> writers;
  for (const SavedFile &file : index->files)
    writers.push_back(file.rank);
  EXPECT_EQ(writers, (std::vector<int64_t>{0, 1, 2})); // 5 rows in chunks of 2: rank 3 holds padding alone
  const std::vector<SavedBox> &weight = index->tensors["a.weight"].boxes; // cut by model: ranks 2 and 3 are copies
  ASSERT_EQ(weight.size(), 2u);
  EXPECT_EQ(weight[0], (SavedBox{0, {0, 0}, {3, 6}, 0}));
  EXPECT_EQ(weight[1], (SavedBox{1, {3, 0}, {2, 6}, 0}));
  const std::vector<SavedBox> &velocity = index->tensors["velocity/a.weight"].boxes;
  ASSERT_EQ(velocity.size(), 3u);
  EXPECT_EQ(velocity[2], (SavedBox{2, {4, 0}, {1, 6}, 0}));
  EXPECT_EQ(index->tensors["scale"].boxes, (std::vector<SavedBox>{{0, {}, {}, 0}}));
  auto read = readIndex(writeIndex(*index));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, *index);
}

TEST_F(Checkpoints, WhatAStageHoldsItsRanksWrite) {
  Mesh mesh{{{"stage", 2}, {"data", 2}, {"microbatch", 3}}};
  package::Arg arg = argOf("late", {4, 2}, cut(mesh, {4, 2}, {{1}, {}}));
  arg.stage = 1;
  auto index = planCheckpoint(programOf(mesh, {arg}));
  ASSERT_TRUE(index);
  ASSERT_EQ(index->files.size(), 2u);
  EXPECT_EQ(index->files[0].rank, 2);
  EXPECT_EQ(index->files[1].rank, 3);
  EXPECT_EQ(index->tensors["late"].boxes[1], (SavedBox{1, {2, 0}, {2, 2}, 0}));
}

TEST_F(Checkpoints, AnyPlanIntoAnyOther) {
  constexpr uint32_t kSeed = 41;
  std::mt19937 random(kSeed);
  auto below = [&](size_t n) { return size_t(random() % n); };
  const std::vector<Mesh> meshes = {
      {{{"a", 1}}}, {{{"a", 6}}}, {{{"a", 2}, {"b", 3}}}, {{{"a", 2}, {"b", 2}, {"c", 2}}}, {{{"a", 4}, {"b", 2}}}};
  // Each tensor has several shapes with the same elements.
  const std::vector<std::vector<Shape>> views = {{{12, 10}, {120}, {3, 4, 10}, {12, 2, 5}, {2, 60}, {1, 12, 1, 10}},
                                                 {{7}, {7, 1}, {1, 7}},
                                                 {{}, {1}, {1, 1}},
                                                 {{5, 7, 3}, {35, 3}, {5, 21}, {105}}};
  auto randomProgram = [&] {
    const Mesh &mesh = meshes[below(meshes.size())];
    package::Program program = programOf(mesh, {});
    for (const auto &shapes : views) {
      const Shape &shape = shapes[below(shapes.size())];
      std::vector<std::vector<int>> axes(shape.size());
      for (int axis = 0; axis < int(mesh.axes.size()); ++axis)
        if (mesh.axes[size_t(axis)].size > 1 && !shape.empty() && below(4))
          axes[below(shape.size())].push_back(axis);
      for (auto &list : axes)
        std::shuffle(list.begin(), list.end(), random);
      package::Arg arg = argOf(std::string(program.args.size() + 1, 't'), shape, cut(mesh, shape, axes));
      arg.exportedShape = shapes[0];
      program.args.push_back(arg);
    }
    return program;
  };
  fs::create_directories(folder);
  for (int trial = 0; trial < 60; ++trial) {
    package::Program from = randomProgram();
    Status saved = saveAll(from, into(folder), trial + 1);
    ASSERT_TRUE(saved) << saved.error().message;
    auto checkpoint = openCheckpoint(folder);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->index.nextStep, trial + 1);
    for (int64_t parts : {1, 3})
      for (int64_t part = 0; part < parts; ++part)
        ASSERT_TRUE(verifyFiles(*checkpoint, part, parts));
    expectRead(*checkpoint, from, fmt::format("seed {}, trial {}, the same plan: ", kSeed, trial));
    for (int other = 0; other < 4; ++other)
      expectRead(*checkpoint, randomProgram(), fmt::format("seed {}, trial {}, plan {}: ", kSeed, trial, other));
  }
}

TEST_F(Checkpoints, OtherElementTypesAreConverted) {
  fs::create_directories(folder);
  package::Program program = programOf({{{"a", 2}}}, {argOf("t", {5}, cut({{{"a", 2}}}, {5}, {{0}}))});
  ASSERT_TRUE(saveAll(program, into(folder), 1));
  auto checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint);
  program.args[0].dtype = DType::I64;
  std::vector<int64_t> got(3, -1);
  Shard shard = shardOf(program.mesh, {5}, program.args[0].sharding, 1);
  ASSERT_TRUE(ShardReader(*checkpoint).read(program.args[0], shard, reinterpret_cast<std::byte *>(got.data())));
  EXPECT_EQ(got[0], element("t", 3));
  EXPECT_EQ(got[1], element("t", 4));
  program.args[0].dtype = DType::F32;
  expect(message(checkCheckpoint(*checkpoint, program)), {"'t'", "i32", "f32"});
}

TEST_F(Checkpoints, AnotherModelIsRefused) {
  fs::create_directories(folder);
  package::Program program = twoTensors();
  ASSERT_TRUE(saveAll(program, into(folder), 1));
  auto checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint);
  package::Program other = program;
  other.args[0].name = "b.weight", other.args[1].name = "velocity/b.weight", other.args[2].name = "shift";
  expect(message(checkCheckpoint(*checkpoint, other)), {"another model", "'a.weight'", "'b.weight'"});
  other = program;
  other.args[1].name = "exp_avg/a.weight";
  expect(message(checkCheckpoint(*checkpoint, other)),
         {"optimizer", "lacks 'exp_avg/a.weight'", "'velocity/a.weight'"});
  other = program;
  other.args.erase(other.args.begin() + 1);
  expect(message(checkCheckpoint(*checkpoint, other)), {"holds 'velocity/a.weight'"});
  other = program;
  other.args[0].exportedShape = {6, 5};
  expect(message(checkCheckpoint(*checkpoint, other)), {"'a.weight'", "[5, 6]", "[6, 5]"});
}

TEST_F(Checkpoints, DamageIsFoundBeforeAnythingIsRead) {
  fs::create_directories(folder);
  package::Program program = twoTensors();
  ASSERT_TRUE(saveAll(program, into(folder), 3));
  std::string one = folder + "/step-000003";
  auto verify = [&]() -> Status {
    auto checkpoint = openCheckpoint(folder);
    if (!checkpoint)
      return checkpoint.error();
    return verifyFiles(*checkpoint, 0, 1);
  };
  ASSERT_TRUE(verify());
  constexpr uint32_t kSeed = 43;
  std::mt19937 random(kSeed);
  for (const auto &entry : fs::directory_iterator(one)) {
    std::string path = entry.path().string(), whole = *readFile(path);
    bool isIndex = path.ends_with(kIndexFile);
    for (size_t length = 0; length < whole.size(); ++length) {
      write(path, whole.substr(0, length));
      Status status = verify();
      if (isIndex && length + 1 == whole.size()) // the last line's end
        continue;
      ASSERT_FALSE(bool(status)) << path << " of " << length << " bytes";
      ASSERT_NE(status.error().message.find(entry.path().filename().string()), std::string::npos)
          << status.error().message;
    }
    for (int trial = 0; trial < 300; ++trial) {
      std::string damaged = whole;
      size_t at = random() % damaged.size();
      damaged[at] = char(random());
      write(path, damaged);
      Status status = verify();
      bool same = damaged == whole || std::isspace(static_cast<unsigned char>(whole[at]));
      ASSERT_TRUE(same || !status) << path << ": byte " << at << ", seed " << kSeed;
    }
    for (int trial = 0; trial < 50; ++trial) { // random bytes
      std::string noise(random() % 400, '\0');
      for (char &byte : noise)
        byte = char(random());
      write(path, noise);
      ASSERT_FALSE(bool(verify()));
    }
    write(path, whole + "more");
    ASSERT_FALSE(bool(verify()));
    fs::remove(path);
    expect(message(verify()), {entry.path().filename().string()});
    write(path, whole);
    ASSERT_TRUE(verify());
  }
}

TEST_F(Checkpoints, FilesOfAnotherCheckpointAreRefused) {
  fs::create_directories(folder);
  package::Program program = twoTensors();
  ASSERT_TRUE(saveAll(program, into(folder), 1));
  package::Program other = program;
  for (package::Arg &arg : other.args) // the same sizes, other content
    arg.name[0] = 'b';
  ASSERT_TRUE(saveAll(other, into(folder), 2));
  fs::copy_file(folder + "/step-000002/rank-00001.safetensors", folder + "/step-000001/rank-00001.safetensors",
                fs::copy_options::overwrite_existing);
  auto checkpoint = openCheckpoint(folder + "/step-000001");
  ASSERT_TRUE(checkpoint);
  expect(message(verifyFiles(*checkpoint, 0, 1)), {"rank-00001", "of another checkpoint"});
}

TEST_F(Checkpoints, AnIndexWhoseBoxesAreWrongIsRefused) {
  auto whole = planCheckpoint(twoTensors());
  ASSERT_TRUE(whole);
  auto refused = [&](auto change, const std::vector<std::string> &parts) {
    CheckpointIndex index = *whole;
    change(index, index.tensors["velocity/a.weight"]);
    expect(message(readIndex(writeIndex(index))), parts);
  };
  refused([](auto &, SavedTensor &t) { t.boxes.pop_back(); }, {"velocity/a.weight", "24 of 30 elements"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].begin = {3, 0}; }, {"boxes 1 and 2 overlap"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].begin = {5, 0}; }, {"box 2", "[1, 6]", "[5, 0]", "[5, 6]"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].begin = {INT64_MAX, 0}; }, {"box 2"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].begin = {4}; }, {"box 2"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].count = {0, 6}; }, {"box 2"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].file = 7; }, {"file 7", "there are 3"});
  refused([](auto &, SavedTensor &t) { t.boxes[2].file = 0; }, {"already has a box"});
  refused([](auto &, SavedTensor &t) { t.exportedShape = {5, 7}; }, {"[5, 6]", "[5, 7]"});
  refused([](auto &, SavedTensor &t) { t.shape = t.exportedShape = {INT64_MAX, INT64_MAX}; },
          {"different numbers of elements"});
  refused([](auto &, SavedTensor &t) { t.kind = ArgKind::Input; }, {"'input'"});
  refused([](CheckpointIndex &index, auto &) { std::swap(index.files[0], index.files[1]); }, {"order"});
  refused([](CheckpointIndex &index, auto &) { index.dataSteps = 0; }, {"data_steps 0"});
  EXPECT_FALSE(bool(readIndex(std::string(100000, '['))));
  expect(message(readIndex("{\"kerf_checkpoint\": 9, \"checksum\": 1}")), {"version 9", "version 1"});
}

TEST_F(Checkpoints, WhatIsThereIsFound) {
  package::Program program = twoTensors();
  expect(message(openCheckpoint(folder)), {"saved", "does not exist"});
  write(folder, "a file");
  expect(message(openCheckpoint(folder)), {"saved", "not a folder"});
  fs::remove(folder);
  fs::create_directories(folder);
  expect(message(openCheckpoint(folder)), {"saved", "holds none", "index.json", "step-"});
  for (int64_t step : {5, 8, 1000000})
    ASSERT_TRUE(saveAll(program, into(folder, 1, 9), step));
  auto opened = [&](const std::string &path) {
    auto checkpoint = openCheckpoint(path);
    return checkpoint ? checkpoint->index.nextStep : -1;
  };
  EXPECT_EQ(opened(folder), 1000000);
  EXPECT_EQ(opened(folder + "/"), 1000000);
  EXPECT_EQ(opened(folder + "/step-000005"), 5);
  fs::remove(folder + "/latest"); // as after a crash before the first checkpoint's `latest` was written
  EXPECT_EQ(opened(folder), 1000000);
  write(folder + "/latest", "step-000008\n");
  EXPECT_EQ(opened(folder), 8);
  write(folder + "/latest", "step-000006");
  expect(message(openCheckpoint(folder)), {"step-000006", "'step-000005', 'step-000008'"});
  for (const char *text : {"", "step-8", "step-0000008", "../etc", "step-00000x", "step--00001"}) {
    write(folder + "/latest", text);
    expect(message(openCheckpoint(folder)), {"latest", "names no checkpoint"});
  }
}

TEST_F(Checkpoints, OldOnesGoAfterTheNewOneIsWhole) {
  package::Program program = twoTensors();
  fs::create_directories(folder);
  for (int64_t step : {2, 4, 6})
    ASSERT_TRUE(saveAll(program, into(folder, 2, 2), step));
  EXPECT_EQ(savedSteps(folder), (std::vector<int64_t>{4, 6}));
  ASSERT_TRUE(saveAll(program, into(folder, 2, 1), 8));
  EXPECT_EQ(savedSteps(folder), std::vector<int64_t>{8});
  ASSERT_TRUE(saveAll(program, into(folder, 2, 100), 10));
  EXPECT_EQ(savedSteps(folder), (std::vector<int64_t>{8, 10}));
  std::vector<std::string> names;
  for (const auto &entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  EXPECT_EQ(names.size(), 3u); // and latest, nothing else
}

TEST_F(Checkpoints, WhatAnEndInTheMiddleLeavesDoesNoHarm) {
  package::Program program = twoTensors();
  fs::create_directories(folder);
  ASSERT_TRUE(saveAll(program, into(folder), 2));
  auto content = [&] {
    auto checkpoint = openCheckpoint(folder);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    EXPECT_EQ(checkpoint->index.nextStep, 2);
    expectRead(*checkpoint, program, "");
  };
  // Left by a crash while shards were written, while an old checkpoint was removed, and before `latest` was written.
  fs::create_directories(folder + "/.step-000004.tmp");
  write(folder + "/.step-000004.tmp/rank-00000.safetensors", "half");
  fs::create_directories(folder + "/.step-000001.old.tmp");
  write(folder + "/.latest.tmp", "st");
  content();
  fs::create_directories(folder + "/step-000004");
  write(folder + "/step-000004/index.json", "from before");
  content();
  ASSERT_TRUE(prepareFolder(into(folder), program, 2, 10));
  EXPECT_FALSE(fs::exists(folder + "/.step-000004.tmp"));
  EXPECT_FALSE(fs::exists(folder + "/.step-000001.old.tmp"));
  content();
  ASSERT_TRUE(saveAll(program, into(folder), 4));
  auto checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->index.nextStep, 4);
  EXPECT_EQ(savedSteps(folder), (std::vector<int64_t>{2, 4}));
}

TEST_F(Checkpoints, AFolderThatCannotBeUsedIsToldFirst) {
  package::Program program = twoTensors();
  write(root + "/file", "");
  expect(message(prepareFolder(into(root + "/file"), program, 0, 10)), {"/file", "cannot make"});
  expect(message(prepareFolder(into(root + "/file/below"), program, 0, 10)), {"/file/below", "cannot make"});
  expect(message(prepareFolder(into("/proc/kerf"), program, 0, 10)), {"/proc/kerf"});
  expect(message(prepareFolder(into("/proc"), program, 0, 10)), {"/proc"});
  expect(message(prepareFolder(into(folder, 0), program, 0, 10)), {"every 0"});
  expect(message(prepareFolder(into(folder, 1, 0), program, 0, 10)), {"of which 0"});
  constexpr int64_t kMany = int64_t(1) << 50;
  expect(message(prepareFolder(into(folder, 1, kMany), program, 0, kMany)), {"MB more", "are free", "<keep>"});
  EXPECT_TRUE(prepareFolder(into(folder, 1, 2), program, 0, kMany)); // only two stay
  ASSERT_TRUE(saveAll(program, into(folder), 4));
  expect(message(prepareFolder(into(folder), program, 0, 10)), {"up to step 4", "begins at step 0", "<resume>"});
  EXPECT_TRUE(prepareFolder(into(folder), program, 4, 10));
}

RunOptions sixSteps() {
  RunOptions options;
  options.steps = 6;
  options.learningRate = [](int64_t step) { return 0.5 / double(1 + step); };
  options.seed = 9;
  return options;
}

TEST_F(Checkpoints, ARunGoesOnWhereItWas) {
  constexpr int64_t kRows = 12, kWidth = 5, kClasses = 7;
  TensorMap data = classifierData(1, kRows, kWidth, kClasses, 4);
  auto program = [](int64_t ranks) { return classifier(ranks, kRows / ranks, kWidth, kClasses, DType::F64); };
  for (int64_t ranks : {1, 2, 3, 4, 6}) {
    auto whole = run(program(ranks), {}, data, sixSteps());
    ASSERT_TRUE(whole) << whole.error().message;
    RunOptions first = sixSteps();
    first.steps = 4;
    first.checkpoint = into(folder + std::to_string(ranks), 3);
    std::vector<int64_t> saved;
    first.checkpoint.onSaved = [&](int64_t nextStep, double) { saved.push_back(nextStep); };
    ASSERT_TRUE(run(program(ranks), {}, data, first));
    EXPECT_EQ(saved, (std::vector<int64_t>{3, 4})); // every third, and the last
    for (int64_t step : {3, 4})
      for (int64_t others : {ranks, ranks % 6 + 1}) {
        if (kRows % others != 0)
          continue;
        auto checkpoint = openCheckpoint(first.checkpoint.folder + "/" + checkpointName(step));
        ASSERT_TRUE(checkpoint) << checkpoint.error().message;
        EXPECT_EQ(checkpoint->index.seed, 9u);
        EXPECT_EQ(checkpoint->index.dataSteps, 4);
        RunOptions second = sixSteps();
        second.firstStep = step;
        second.steps = 6 - step;
        second.seed = 0; // has no effect, because nothing is initialized
        second.resume = &*checkpoint;
        auto resumed = run(program(others), {}, data, second);
        ASSERT_TRUE(resumed) << resumed.error().message;
        EXPECT_TRUE(resumed->initialized.empty());
        for (const StepResult &result : resumed->steps) {
          double expected = whole->steps[size_t(result.step)].loss;
          if (others == ranks)
            EXPECT_EQ(result.loss, expected);
          else
            EXPECT_NEAR(result.loss, expected, 1e-13);
        }
      }
  }
}

TEST_F(Checkpoints, ASaveThatFailsEndsTheRunAndLeavesTheLastOne) {
  TensorMap data = classifierData(1, 6, 5, 7, 4);
  RunOptions options = sixSteps();
  options.checkpoint = into(folder, 2);
  options.checkpoint.onSaved = [&](int64_t nextStep, double) {
    if (nextStep == 2) // where the next one would be written
      write(folder + "/.step-000004.tmp", "a file that is in the way");
    if (nextStep == 4)
      fs::rename(folder, folder + "-moved");
  };
  auto report = run(classifier(3, 2, 5, 7, DType::F64), {}, data, options);
  ASSERT_FALSE(bool(report));
  expect(report.error().message, {"step 6", "saved", "No such file"});
  auto checkpoint = openCheckpoint(folder + "-moved");
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_EQ(checkpoint->index.nextStep, 4);
  EXPECT_TRUE(verifyFiles(*checkpoint, 0, 1));
}

TEST_F(Checkpoints, AStartThatCannotBeIsToldBeforeTheFirstStep) {
  TensorMap data = classifierData(1, 6, 5, 7, 4);
  auto program = classifier(3, 2, 5, 7, DType::F64);
  RunOptions options = sixSteps();
  options.checkpoint = into(folder, 3);
  ASSERT_TRUE(run(program, {}, data, options));
  int steps = 0;
  options.onStep = [&](const StepResult &) { return ++steps, ok(); };
  expect(message(run(program, {}, data, options)), {"up to step 6", "begins at step 0"});
  auto checkpoint = openCheckpoint(folder);
  ASSERT_TRUE(checkpoint);
  RunOptions resumed = sixSteps();
  resumed.onStep = options.onStep;
  resumed.firstStep = 6;
  resumed.resume = &*checkpoint;
  std::string path = folder + "/step-000006/rank-00000.safetensors", whole = *readFile(path);
  write(path, whole.substr(0, whole.size() - 1));
  expect(message(run(program, {}, data, resumed)), {"rank-00000", "truncated"});
  auto wide = classifier(3, 2, 5, 8, DType::F64);
  expect(message(run(wide, {}, classifierData(1, 6, 5, 8, 4), resumed)), {"'layer.weight'", "[5, 7]", "[5, 8]"});
  EXPECT_EQ(steps, 0);
  write(path, whole);
  ASSERT_TRUE(run(program, {}, data, resumed));
  EXPECT_EQ(steps, 6);
}

} // namespace
} // namespace kerf::runtime::test
