// SPDX-License-Identifier: Apache-2.0
#include "kerf/Package/Batches.h"
#include "kerf/Package/Package.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <set>

namespace kerf::package {
namespace {

Sharding cut(int64_t ways, int64_t chunk) {
  Sharding sharding = Sharding::replicated(2);
  sharding.dims[0] = {{{0, 1, ways}}, chunk};
  return sharding;
}

/// Returns a program with an input x [5, 4] that is split in two with padding, a parameter w that the result "new"
/// replaces, a layer that is called twice, and a collective.
Program sample() {
  Program program;
  program.mesh.axes = {{"data", 2}, {"model", 3}};
  Function layer{
      "layer", {{DType::F32, {3, 4}, false}, {DType::F32, {3, 4}, false}}, {0}, {1}, {{"tanh", {0}, {1}, {}, "h"}}};
  layer.body[0].attrs = {
      {"limit", std::numeric_limits<double>::infinity()}, {"low", {-1.5, std::nan("")}}, {"axes", {0, 1, 2}}};
  Function main;
  main.name = "main";
  Value local{DType::F32, {3, 4}, false}, pending{DType::F32, {3, 4}, true}, scalar{DType::F32, {}, false};
  main.values = {local, local, local, local, pending, local, scalar, scalar};
  main.args = {0, 1, 6};
  main.results = {5, 7};
  main.body = {{"call", {0}, {2}, {{"callee", "layer"}}, "layer.0"},
               {"call", {2}, {3}, {{"callee", "layer"}}, "layer.1"},
               {"all_reduce", {3}, {4}, {{"axes", {1, 1, 3}}, {"kind", "sum"}}, "reduce"},
               {"wait", {4}, {5}, nlohmann::ordered_json::object(), ""},
               {"negate", {6}, {7}, nlohmann::ordered_json::object(), "loss \"quoted\" \xc3\xa9"}};
  program.functions = {layer, main};
  program.entry = "main";
  program.args = {{ArgKind::Input, "x", DType::F32, {5, 4}, {20}, cut(2, 3), -1, false},
                  {ArgKind::Parameter, "w", DType::F32, {5, 4}, {5, 4}, cut(2, 3), 0, true},
                  {ArgKind::LearningRate, "learning_rate", DType::F32, {}, {}, Sharding::replicated(0), -1, false}};
  program.results = {{"w", cut(2, 3), {}}, {"loss", Sharding::replicated(0), {}}};
  program.info = {{"model", "sample"}};
  return program;
}

TEST(Program, ReadsWhatItWrites) {
  std::string text = writeProgram(sample());
  auto read = readProgram(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(writeProgram(*read), text);
  EXPECT_EQ(read->args[0].exportedShape, Shape{20});
  EXPECT_EQ(read->args[1].updatedBy, 0);
  EXPECT_TRUE(read->args[1].trainable);
  EXPECT_EQ(read->args[1].sharding, sample().args[1].sharding);
  EXPECT_EQ(read->functions[1].body[4].name, "loss \"quoted\" \xc3\xa9");
  const auto &attrs = read->functions[0].body[0].attrs;
  EXPECT_EQ(*parseNumber(attrs["limit"]), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*parseNumber(attrs["low"][1])));
  EXPECT_EQ(*parseNumber(attrs["low"][0]), -1.5);
  EXPECT_FALSE(parseNumber("one"));
  EXPECT_TRUE(isCollective("all_to_all"));
  EXPECT_FALSE(isCollective("wait"));
}

/// Returns a pipeline of two stages with one parameter each and three microbatches of two rows: x -> y = tanh(x * w0)
/// -> loss = sum(y * w1).
Program pipeline() {
  Program program;
  program.mesh.axes = {{"stage", 2}, {"data", 2}, {"microbatch", 3}};
  program.schedule = {"zero-bubble", "h1", 1};
  Value rows{DType::F32, {2, 4}}, weight{DType::F32, {4}}, scalar{DType::F32, {}};
  Function main;
  main.name = "main";
  main.values = {rows, weight, weight, rows, rows, scalar, scalar};
  main.args = {0, 1, 2};
  main.results = {6};
  ProgramTask forward0{Phase::Forward, 0, 0}, forward1{Phase::Forward, 1, 0};
  nlohmann::ordered_json none = nlohmann::ordered_json::object();
  main.body = {{"scale", {0, 1}, {3}, none, "layer.0", forward0},
               {"transfer", {3}, {4}, {{"from", 0}, {"to", 1}}, "", forward0},
               {"product", {4, 2}, {5}, none, "layer.1", forward1},
               {"accumulate", {5}, {6}, none, "loss", forward1}};
  program.functions = {main};
  program.entry = "main";
  Sharding batch = Sharding::replicated(2), whole = Sharding::replicated(1);
  batch.dims[0] = {{{1, 1, 2}, {2, 1, 3}}, 2};
  program.args = {{ArgKind::Input, "x", DType::F32, {12, 4}, {12, 4}, batch, -1, false, 0},
                  {ArgKind::Parameter, "w0", DType::F32, {4}, {4}, whole, -1, true, 0},
                  {ArgKind::Parameter, "w1", DType::F32, {4}, {4}, whole, -1, true, 1}};
  program.results = {{"loss", Sharding::replicated(0), {}, 1}};
  return program;
}

TEST(Program, ReadsTheScheduleThatItWrites) {
  Program program = pipeline();
  std::string text = writeProgram(program);
  auto read = readProgram(text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(writeProgram(*read), text);
  EXPECT_EQ(read->schedule, program.schedule);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(read->functions[0].body[i].task, program.functions[0].body[i].task) << i;
  EXPECT_EQ(read->args[2].stage, 1);
  EXPECT_EQ(read->results[0].stage, 1);
  program.schedule = {"interleaved", "", 2};
  for (Instruction &instruction : program.functions[0].body)
    instruction.task->chunk = 1;
  text = writeProgram(program);
  EXPECT_NE(text.find(R"("schedule": {"name":"interleaved","chunks":2})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("task":{"phase":"forward","stage":0,"chunk":1})"), std::string::npos) << text;
  for (int phase = 0; phase < 6; ++phase)
    EXPECT_EQ(parsePhase(toString(Phase(phase))), Phase(phase));
  text.replace(text.find("\"phase\":\"forward\""), 17, "\"phase\":\"forwards\"");
  auto damaged = readProgram(text);
  ASSERT_FALSE(damaged);
  EXPECT_NE(damaged.error().message.find("instruction 0: unknown phase 'forwards'; there are prepare, forward"),
            std::string::npos)
      << damaged.error().message;
}

TEST(Program, AMicrobatchIsNotARank) {
  Program program = pipeline();
  EXPECT_EQ(ranksOf(program), 4);
  EXPECT_EQ(stagesOf(program), 2);
  EXPECT_EQ(microbatchesOf(program), 3);
  std::vector<int64_t> stages, others;
  for (int64_t rank = 0; rank < 4; ++rank) {
    stages.push_back(stageOf(program, rank));
    others.push_back(rankOnStage(program, rank, 1 - stages.back()));
  }
  EXPECT_EQ(stages, (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(others, (std::vector<int64_t>{2, 3, 0, 1}));
  EXPECT_EQ(virtualRank(program, 3, 1), 10);
  std::swap(program.mesh.axes[0], program.mesh.axes[1]); // data outermost
  EXPECT_EQ(stageOf(program, 1), 1);
  EXPECT_EQ(rankOnStage(program, 1, 0), 0);
  EXPECT_EQ(ranksOf(sample()), 6);
  EXPECT_EQ(stagesOf(sample()) * microbatchesOf(sample()), 1);
}

TEST(Program, EveryTruncationIsAMessage) {
  for (const Program &program : {sample(), pipeline()}) {
    std::string text = writeProgram(program);
    text.pop_back(); // the final newline may be missing
    for (size_t length = 0; length < text.size(); ++length)
      ASSERT_FALSE(bool(readProgram(std::string_view(text).substr(0, length)))) << length;
  }
}

TEST(Program, DamageNeverCrashes) {
  const std::string texts[] = {writeProgram(sample()), writeProgram(pipeline())};
  constexpr uint32_t kSeed = 3;
  std::mt19937 random(kSeed);
  constexpr std::string_view kLikely = "0123456789-[]{},\":.enull";
  int accepted = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string damaged = texts[trial % 2];
    for (int flips = 1 + int(random() % 3); flips > 0; --flips)
      damaged[random() % damaged.size()] = random() % 2 ? char(random()) : kLikely[random() % kLikely.size()];
    auto read = readProgram(damaged);
    if (!read) {
      ASSERT_FALSE(read.error().message.empty());
      continue;
    }
    ++accepted; // a name or an attribute changed: what is accepted is consistent
    ASSERT_TRUE(checkProgram(*read));
    ASSERT_TRUE(readProgram(writeProgram(*read))) << "seed " << kSeed << ", trial " << trial;
  }
  EXPECT_GT(accepted, 0);
  EXPECT_FALSE(bool(readProgram(std::string(100000, '['))));
  EXPECT_FALSE(bool(readProgram("{\"a\":" + std::string(100000, '{'))));
}

TEST(Program, EveryInconsistencyIsNamed) {
  struct Row {
    std::string message;
    void (*damage)(Program &);
  };
  std::vector<Row> rows = {
      {"axis 'data'", [](Program &p) { p.mesh.axes[0].size = 0; }},
      {"two axes named 'data'", [](Program &p) { p.mesh.axes[1].name = "data"; }},
      {"no function of that name", [](Program &p) { p.entry = "nope"; }},
      {"two functions", [](Program &p) { p.functions[0].name = "main"; }},
      {"there are 8 values", [](Program &p) { p.functions[1].body[2].operands = {8}; }},
      {"before it is defined", [](Program &p) { p.functions[1].body[0].operands = {5}; }},
      {"defined already", [](Program &p) { p.functions[1].body[1].results = {2}; }},
      {"no function 'gone'", [](Program &p) { p.functions[1].body[0].attrs["callee"] = "gone"; }},
      {"needs the attribute callee", [](Program &p) { p.functions[1].body[0].attrs.clear(); }},
      {"2 operands are given, but function 'layer' has 1",
       [](Program &p) { p.functions[1].body[0].operands = {0, 0}; }},
      {"function 'layer' has f32[4, 3]", [](Program &p) { p.functions[0].values[0].shape = {4, 3}; }},
      {"calls itself", [](Program &p) { p.functions[0].body[0] = {"call", {0}, {1}, {{"callee", "layer"}}, ""}; }},
      {"only wait may use a pending value", [](Program &p) { p.functions[1].body[3].op = "negate"; }},
      {"only collectives and copies give pending", [](Program &p) { p.functions[1].body[2].op = "tanh"; }},
      {"the operand of wait must be a pending value", [](Program &p) { p.functions[1].body[3].operands = {3}; }},
      {"one operand", [](Program &p) { p.functions[1].body[2].operands = {3, 3}; }},
      {"negative or too large",
       [](Program &p) { p.functions[1].values[2].shape = {int64_t(1) << 40, int64_t(1) << 40}; }},
      {"3 arguments and 1 results", [](Program &p) { p.results.pop_back(); }},
      {"chunk must be at least 3", [](Program &p) { p.args[0].sharding = cut(2, 2); }},
      {"gives the local shape [4, 4] for [5, 4]", [](Program &p) { p.args[0].sharding = cut(2, 4); }},
      {"names axis 7, but the mesh has 2 axes", [](Program &p) { p.args[0].sharding.dims[0].axes[0].axis = 7; }},
      {"dimensions", [](Program &p) { p.args[0].sharding = Sharding::replicated(1); }},
      {"partial", [](Program &p) { p.args[0].sharding.partial = {{1, 1, 3}}; }},
      {"exported shape [21]", [](Program &p) { p.args[0].exportedShape = {21}; }},
      {"in the entry function it is f32", [](Program &p) { p.args[0].dtype = DType::F64; }},
      {"updated by result 9, but there are 2", [](Program &p) { p.args[1].updatedBy = 9; }},
      {"or has another sharding", [](Program &p) { p.args[1].updatedBy = 1; }},
      {"updates another argument too", [](Program &p) { p.args[0].updatedBy = 0; }},
      {"of the same kind has the same name",
       [](Program &p) { p.args[0].kind = ArgKind::Parameter, p.args[0].name = "w"; }},
      {"is a scalar", [](Program &p) { p.args[0].kind = ArgKind::LearningRate; }},
  };
  for (const Row &row : rows) {
    Program program = sample();
    row.damage(program);
    Status status = checkProgram(program);
    ASSERT_FALSE(bool(status)) << row.message;
    EXPECT_NE(status.error().message.find(row.message), std::string::npos)
        << row.message << " | " << status.error().message;
  }
}

TEST(Program, RanksDoNotCountMicrobatches) {
  for (size_t place = 0; place < 3; ++place) {
    Program program;
    program.mesh.axes = {{"stage", 2}, {"data", 3}};
    program.mesh.axes.insert(program.mesh.axes.begin() + int64_t(place), {"microbatch", 5});
    ASSERT_EQ(ranksOf(program), 6);
    std::set<int64_t> seen;
    for (int64_t rank = 0; rank < 6; ++rank)
      for (int64_t microbatch = 0; microbatch < 5; ++microbatch) {
        int64_t all = virtualRank(program, rank, microbatch);
        EXPECT_TRUE(seen.insert(all).second);
        EXPECT_EQ(realRank(program.mesh, all), rank);
        EXPECT_EQ(program.mesh.coordinate(all, program.mesh.find("microbatch")), microbatch);
        EXPECT_EQ(program.mesh.coordinate(all, program.mesh.find("stage")), rank / 3);
        EXPECT_EQ(program.mesh.coordinate(all, program.mesh.find("data")), rank % 3);
      }
  }
}

TEST(Program, EveryWrongStageIsNamed) {
  struct Row {
    std::string message;
    void (*damage)(Program &);
  };
  std::vector<Row> rows = {
      {"but it has no schedule", [](Program &p) { p.schedule.reset(); }},
      {"schedule \"9f9b\" is unknown", [](Program &p) { p.schedule->name = "9f9b"; }},
      {"no variant \"h9\"", [](Program &p) { p.schedule->variant = "h9"; }},
      {"schedule zero-bubble with 2 chunks", [](Program &p) { p.schedule->chunks = 2; }},
      {"instruction 0 (scale of layer.0): it has no task", [](Program &p) { p.functions[0].body[0].task.reset(); }},
      {"its task is on stage 2, but there are 2: 0 to 1", [](Program &p) { p.functions[0].body[0].task->stage = 2; }},
      {"its task is of chunk 1, but forward has 1 chunk(s)",
       [](Program &p) { p.functions[0].body[0].task->chunk = 1; }},
      {"zero-bubble splits the backward", [](Program &p) { p.functions[0].body[0].task->phase = Phase::Backward; }},
      {"1f1b does not split the backward",
       [](Program &p) {
         p.schedule = {"1f1b", "", 1};
         p.functions[0].body[0].task->phase = Phase::InputGradient;
       }},
      {"value 3 is on stage 0, its task is on stage 1: transfer it",
       [](Program &p) { p.functions[0].body[2].operands = {3, 2}; }},
      {"value 6 exists only in the phase update, but the instruction that uses it has the phase forward",
       [](Program &p) {
         p.functions[0].values.push_back({DType::F32, {}});
         p.functions[0].body.push_back(
             {"negate", {6}, {7}, nlohmann::ordered_json::object(), "", ProgramTask{Phase::Forward, 1, 0}});
       }},
      {"value 5 belongs to one microbatch, but the phase update runs once for the whole step: accumulate the value",
       [](Program &p) {
         p.functions[0].values.push_back({DType::F32, {}});
         p.functions[0].body.push_back(
             {"negate", {5}, {7}, nlohmann::ordered_json::object(), "", ProgramTask{Phase::Update, 1, 0}});
       }},
      {"value 4 is computed in weight_gradient of stage 0, chunk 0, which need not have run before forward of stage 1",
       [](Program &p) {
         p.functions[0].body[0].task->phase = p.functions[0].body[1].task->phase = Phase::WeightGradient;
       }},
      {"value 3 is computed in forward of stage 0, chunk 1, which need not have run before forward of stage 0, chunk 0",
       [](Program &p) {
         p.schedule = {"interleaved", "", 2};
         p.functions[0].body[0].task->chunk = 1;
       }},
      {"attribute from must be a stage, 0 to 1", [](Program &p) { p.functions[0].body[1].attrs.erase("from"); }},
      {"attribute to must be a stage, 0 to 1", [](Program &p) { p.functions[0].body[1].attrs["to"] = 5; }},
      {"from stage 1 to stage 0 in a task of stage 0",
       [](Program &p) { p.functions[0].body[1].attrs = {{"from", 1}, {"to", 0}}; }},
      {"from stage 0 to stage 0", [](Program &p) { p.functions[0].body[1].attrs["to"] = 0; }},
      {"have different types", [](Program &p) { p.functions[0].values[4].dtype = DType::F64; }},
      {"no instruction uses its result", [](Program &p) { p.functions[0].body[2].operands = {2, 2}; }},
      {"takes one operand and gives one result", [](Program &p) { p.functions[0].body[1].operands = {3, 3}; }},
      {"it sums value 2 over the microbatches", [](Program &p) { p.functions[0].body[3].operands = {2}; }},
      {"it sums f32 into i32", [](Program &p) { p.functions[0].values[6].dtype = DType::I32; }},
      {"it sums f32 into bf16", [](Program &p) { p.functions[0].values[6].dtype = DType::BF16; }},
      {"result 0 ('loss'): it is on stage 0, but its value is on stage 1", [](Program &p) { p.results[0].stage = 0; }},
      {"it names no stage, but its value is on stage 1", [](Program &p) { p.results[0].stage = -1; }},
      {"it is on stage 2, but there are 2", [](Program &p) { p.results[0].stage = 2; }},
      {"its value belongs to one microbatch: accumulate the value", [](Program &p) { p.functions[0].results = {5}; }},
      {"a parameter must be on one of the 2 stages, but names none", [](Program &p) { p.args[1].stage = -1; }},
      {"argument 1 ('w0'): it is on stage 7, but there are 2", [](Program &p) { p.args[1].stage = 7; }},
      {"it is sharded over the axis 'stage'",
       [](Program &p) {
         p.args[1].sharding.dims[0] = {{{0, 1, 2}}, 2};
         p.functions[0].values[1].shape = {2};
       }},
      {"it is sharded over the axis 'microbatch': only an input",
       [](Program &p) {
         p.args[1].sharding.dims[0] = {{{2, 1, 3}}, 2};
         p.functions[0].values[1].shape = {2};
       }},
      {"must be the last of the axes that shard a dimension",
       [](Program &p) { std::swap(p.args[0].sharding.dims[0].axes[0], p.args[0].sharding.dims[0].axes[1]); }},
      {"it runs over the axis 'microbatch': ranks of different microbatches exchange values only by accumulate",
       [](Program &p) {
         p.functions[0].values.push_back({DType::F32, {2, 4}, true});
         p.functions[0].body.push_back(
             {"all_reduce", {3}, {7}, {{"axes", {1, 1, 2, 2, 1, 3}}}, "", ProgramTask{Phase::Forward, 0, 0}});
       }},
      {"it runs over the axis 'stage'",
       [](Program &p) {
         p.functions[0].values.push_back({DType::F32, {2, 4}, true});
         p.functions[0].body.push_back(
             {"all_reduce", {3}, {7}, {{"axes", {0, 1, 2}}}, "", ProgramTask{Phase::Forward, 0, 0}});
       }},
      {"function 'layer': instruction 0 (tanh of h): it has a task",
       [](Program &p) {
         p.functions.push_back(sample().functions[0]);
         p.functions[1].body[0].task = ProgramTask{};
       }},
      {"it can only be in the entry function of a program with a schedule",
       [](Program &p) {
         p.functions.push_back(sample().functions[0]);
         p.functions[1].body[0].op = "accumulate";
       }},
      {"it is on stage 0, but result 1 that updates it is on stage 1",
       [](Program &p) {
         p.functions[0].results.push_back(2);
         p.results.push_back({"w0", Sharding::replicated(1), {4}, 1});
         p.args[1].updatedBy = 1;
       }},
  };
  for (const Row &row : rows) {
    Program program = pipeline();
    row.damage(program);
    Status status = checkProgram(program);
    ASSERT_FALSE(bool(status)) << row.message;
    EXPECT_NE(status.error().message.find(row.message), std::string::npos)
        << row.message << " | " << status.error().message;
  }
  Program flat = sample();
  flat.schedule = ScheduleChoice{"1f1b", ""};
  Status status = checkProgram(flat);
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.error().message.find("its mesh has neither"), std::string::npos) << status.error().message;
}

TEST(Program, NestedCallsCannotExplode) {
  Program program = sample();
  for (int level = 0; level < 60; ++level) { // 2^60 instructions
    Function &callee = program.functions.emplace_back();
    callee.name = "level" + std::to_string(level);
    callee.values.assign(3, {DType::F32, {3, 4}, false});
    callee.args = {0};
    callee.results = {2};
    std::string below = level ? "level" + std::to_string(level - 1) : "layer";
    callee.body = {{"call", {0}, {1}, {{"callee", below}}, ""}, {"call", {1}, {2}, {{"callee", below}}, ""}};
  }
  program.functions[1].body[0].attrs["callee"] = "level59";
  Status status = checkProgram(program);
  ASSERT_FALSE(bool(status));
  EXPECT_NE(status.error().message.find("inlined, it has more than"), std::string::npos) << status.error().message;
}

TEST(Program, BatchesOfACollectiveAreRangesOneAfterTheOther) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  auto batches = [](nlohmann::ordered_json numbers) {
    Program program = sample();
    program.functions[1].body[2].attrs[kBatches] = std::move(numbers);
    Status status = checkProgram(program);
    return status ? batchesOf(program.functions[1].body[2]) : Result<BatchSet>(status.error());
  };
  auto read = batches({0, 4, 1, 1, 4, 12, 4, 3, 15, kLast, 8, 1});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(flatBatches(*read), (std::vector<int64_t>{0, 4, 1, 1, 4, 12, 4, 3, 15, kLast, 8, 1}));
  std::vector<int64_t> found;
  for (int64_t batch = 0; batch < 32; ++batch)
    if (read->contains(batch))
      found.push_back(batch);
  EXPECT_EQ(found, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 15, 23, 31}));
  EXPECT_TRUE(batchesOf(sample().functions[1].body[2])->contains(kLast - 1)) << "without the attribute: all batches";
  struct Row {
    nlohmann::ordered_json numbers;
    std::string message;
  };
  for (const Row &row : std::vector<Row>{{nlohmann::ordered_json::array(), "each of which is four integers"},
                                         {{0, 7}, "each of which is four integers"},
                                         {7, "each of which is four integers"},
                                         {{0, 7, 1, "1"}, "number 3 has to be an integer of 64 bits"},
                                         {{0, 7, 1.5, 1}, "number 2 has to be an integer of 64 bits"},
                                         {{0, uint64_t(kLast) + 1, 1, 1}, "number 1 has to be an integer of 64 bits"},
                                         {{-1, 7, 1, 1}, "its range 0 has to have 0 <= begin < end"},
                                         {{7, 7, 1, 1}, "its range 0 has to have 0 <= begin < end"},
                                         {{0, 7, 0, 1}, "1 <= run <= every"},
                                         {{0, 7, 2, 3}, "1 <= run <= every"},
                                         {{0, 7, 2, 0}, "1 <= run <= every"},
                                         {{0, 7, 1, 1, 6, 9, 1, 1}, "its range 1 has to have 7 <= begin < end"}}) {
    auto wrong = batches(row.numbers);
    ASSERT_FALSE(bool(wrong)) << row.numbers.dump();
    EXPECT_NE(wrong.error().message.find(row.message), std::string::npos) << wrong.error().message;
  }
}

TEST(Program, AnotherVersionIsRefused) {
  std::string text = writeProgram(sample());
  text.replace(text.find("\"kerf_package\": 3"), 17, "\"kerf_package\": 2");
  auto read = readProgram(text);
  ASSERT_FALSE(bool(read));
  EXPECT_NE(read.error().message.find("version 2, but this runtime reads version 3"), std::string::npos)
      << read.error().message;
}

} // namespace
} // namespace kerf::package
