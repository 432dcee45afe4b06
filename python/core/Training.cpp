// SPDX-License-Identifier: Apache-2.0
// Running from Python: models in training, packages, and the compilation to a package.
#include "Arrays.h"
#include "Calls.h"
#include "Texts.h"
#include "kerf/Compiler/CompileJob.h"
#include "kerf/Compiler/TextLayouts.h"
#include "kerf/Trainer/Trainer.h"

#include <mutex>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

namespace kerf::python {

namespace {

using Json = nlohmann::ordered_json;
using Text = std::string;
using MaybeText = std::optional<std::string>;

/// A trainer or a session, of which only one call may run at a time: further threads wait.
template <typename Engine> struct Running {
  explicit Running(Engine engine) : engine(std::move(engine)) {}
  ~Running() {
    // The threads of the ranks may let go of arrays while they end, for which they need the GIL.
    nb::gil_scoped_release release;
    Engine ended = std::move(engine);
  }
  Engine engine;
  std::mutex one;

  /// Makes a call without the GIL.
  template <typename Call> auto call(Call &&make) {
    nb::gil_scoped_release release;
    std::scoped_lock lock(one);
    return make(engine);
  }
};

nb::dict toDict(const runtime::StepResult &step) {
  nb::dict result;
  result["step"] = step.step;
  result["loss"] = step.loss;
  result["learning_rate"] = step.learningRate;
  result["seconds"] = step.seconds;
  result["skipped"] = step.skipped;
  return result;
}

nb::dict toDict(const runtime::Evaluation &evaluation) {
  nb::dict means, result;
  for (const auto &[name, mean] : evaluation.means)
    means[name.c_str()] = mean;
  result["step"] = evaluation.step;
  result["batches"] = evaluation.batches;
  result["means"] = means;
  result["seconds"] = evaluation.seconds;
  return result;
}

template <typename Engine> nb::list inputsOf(const Running<Engine> &running) {
  nb::list inputs;
  for (const runtime::BatchTensor &input : running.engine.inputs())
    inputs.append(nb::make_tuple(input.name, Text(toString(input.dtype)), nb::cast(input.shape)));
  return inputs;
}

Status load(training::Trainer &trainer, const Text &folder) { return trainer.load(folder); }
Status load(runtime::Session &session, const Text &folder) {
  auto checkpoint = runtime::openCheckpoint(folder);
  return checkpoint ? session.load(*checkpoint) : Status(checkpoint.error());
}

/// Adds the calls that trainers and sessions have in common.
template <typename Engine> nb::class_<Running<Engine>> addEngine(nb::module_ &m, const char *name, const char *doc) {
  using Its = Running<Engine>;
  return nb::class_<Its>(m, name, doc)
      .def("inputs", &inputsOf<Engine>)
      .def("step",
           [](Its &its, const nb::dict &batch) {
             TensorMap tensors = tensorsFrom(batch);
             return toDict(take(its.call([&](Engine &engine) { return engine.step(tensors); })));
           })
      .def("next_step", [](Its &its) { return its.engine.nextStep(); })
      .def("set_learning_rate_factor",
           [](Its &its, double factor) {
             take(its.call([&](Engine &engine) { return engine.setLearningRateFactor(factor); }));
           })
      .def("parameters_and_states",
           [](Its &its) {
             return arraysOf(take(its.call([](Engine &engine) { return engine.parametersAndStates(); })));
           })
      .def(
          "evaluate",
          [](Its &its, const nb::dict &arrays, bool samples, std::optional<int64_t> batches) {
            TensorMap tensors = tensorsFrom(arrays);
            return toDict(take(
                its.call([&](Engine &engine) { return engine.evaluate(runtime::dataOf(tensors), samples, batches); })));
          },
          nb::arg("arrays"), nb::arg("samples"), nb::arg("batches").none())
      .def("parameters",
           [](Its &its) { return arraysOf(take(its.call([](Engine &engine) { return engine.parameters(); }))); })
      .def("assign",
           [](Its &its, const nb::dict &arrays) {
             TensorMap tensors = tensorsFrom(arrays);
             take(its.call([&](Engine &engine) { return engine.assign(tensors); }));
           })
      .def("save",
           [](Its &its, const Text &folder) { take(its.call([&](Engine &engine) { return engine.save(folder); })); })
      .def("load",
           [](Its &its, const Text &folder) { take(its.call([&](Engine &engine) { return load(engine, folder); })); })
      .def(
          "cancel", [](Its &its) { its.engine.cancel(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("ended", [](Its &its) -> MaybeText {
        auto error = its.engine.ended();
        return error ? std::optional(asKeywords(error->message)) : std::nullopt;
      });
}

runtime::OnNan onNanFrom(const Text &text) {
  if (text != "stop" && text != "skip" && text != "continue")
    throw KerfError({"<on-nan> is '" + text + "'; it has to be one of stop, skip, continue"});
  return text == "stop" ? runtime::OnNan::Stop : text == "skip" ? runtime::OnNan::Skip : runtime::OnNan::Continue;
}

void checkThreads(int64_t threads) {
  if (threads < 1 || threads > 1024)
    throw KerfError({"<threads>: '" + std::to_string(threads) + "' is not a whole number from 1 to 1024"});
}

/// Makes a trainer from settings: the job of the plan, and what the caller gives.
std::unique_ptr<Running<training::Trainer>> makeTrainer(const std::optional<ModelSource> &model, const MaybeText &plan,
                                                        const Text &settings, const MaybeText &cluster,
                                                        const nb::dict &weights, const Text &device, int64_t threads,
                                                        bool native, const Text &onNan, int64_t firstStep) {
  TensorMap given = tensorsFrom(weights);
  checkThreads(threads);
  nb::gil_scoped_release release;
  PlanUse use = useOf(model, plan, settings, cluster);
  ResolvedUse resolved = take(resolveUse(use));
  PlanRequest request = take(requestOf(resolved));
  training::TrainerOptions options{resolved.model};
  options.step = request.step;
  options.dtype = resolved.settings.model.dtype;
  options.weights = std::move(given);
  options.seed = resolved.settings.seed;
  options.ranks = resolved.settings.search.ranks;
  if (plan)
    options.plan = use.plan;
  if (resolved.knownMachines)
    options.cluster = resolved.cluster;
  options.search = request.options;
  options.searchKind = request.search;
  options.learningRate = resolved.settings.learningRate;
  options.firstStep = firstStep;
  options.device = device;
  options.threads = threads;
  options.nativeCode = native;
  options.onNan = onNanFrom(onNan);
  return std::make_unique<Running<training::Trainer>>(take(training::Trainer::create(options)));
}

std::unique_ptr<Running<runtime::Session>> makeSession(const Text &folder, const Text &settings,
                                                       const nb::dict &weights, const Text &device, int64_t threads,
                                                       const Text &onNan) {
  TensorMap given = tensorsFrom(weights);
  checkThreads(threads);
  nb::gil_scoped_release release;
  JobSettings read = take(readSettings(jsonFrom(settings), /*strict=*/true));
  runtime::LoadedPackage package = take(runtime::loadPackage(folder));
  for (auto &[name, tensor] : given) {
    const auto &args = package.program.args;
    if (std::none_of(args.begin(), args.end(), [&](const package::Arg &arg) { return arg.name == name; }))
      throw KerfError({"weights: the model has no tensor '" + name + "'; leave it out or correct its name"});
    package.weights[name] = tensor;
  }
  runtime::SessionOptions options;
  options.learningRate = read.learningRate;
  options.seed = read.seed.value_or(options.seed);
  options.device = device;
  options.threads = threads;
  options.onNan = onNanFrom(onNan);
  return std::make_unique<Running<runtime::Session>>(
      take(runtime::Session::create(std::move(package.program), package.weights, options)));
}

Text compile(const std::optional<ModelSource> &model, const MaybeText &plan, const Text &settings,
             const MaybeText &cluster, const Text &folder, bool native) {
  CompiledJob compiled = take(compileJob(useOf(model, plan, settings, cluster), folder, native));
  return Json{{"plan", Json::parse(toJson(compiled.plan))},
              {"report", toJson(compiled.report)},
              {"text", toText(compiled.report)},
              {"warnings", asKeywords(compiled.warnings)},
              {"notes", asKeywords(compiled.notes)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text parameterLayouts(const std::optional<ModelSource> &model, const MaybeText &plan, const Text &settings,
                      const MaybeText &cluster) {
  Json layouts = Json::object();
  for (const ParameterLayout &one : take(kerf::parameterLayouts(useOf(model, plan, settings, cluster))))
    layouts[one.name] = {{"shape", one.shape}, {"sizes", one.sizes},         {"folds", one.folds},
                         {"axes", one.axes},   {"trainable", one.trainable}, {"stage", one.stage}};
  return layouts.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the axes that cut each dimension, by name.
std::vector<std::vector<Text>> axesOf(const Mesh &mesh, const Sharding &sharding) {
  std::vector<std::vector<Text>> axes(sharding.dims.size());
  for (size_t dim = 0; dim < axes.size(); ++dim)
    for (const AxisRef &ref : sharding.dims[dim].axes)
      axes[dim].push_back(axisText(mesh, ref));
  return axes;
}

Text placements(const std::optional<ModelSource> &model, const MaybeText &plan, const Text &settings,
                const MaybeText &cluster) {
  TextLayouts layouts = take(textLayouts(useOf(model, plan, settings, cluster)));
  Json root = {{"mesh", Json::array()}, {"arguments", Json::object()}, {"ops", Json::array()}};
  for (const MeshAxis &axis : layouts.mesh.axes)
    root["mesh"].push_back({axis.name, axis.size});
  for (const auto &[kind, one] : layouts.arguments)
    root["arguments"][one.name] = {
        {"kind", kind}, {"shape", one.shape}, {"sizes", one.sizes}, {"folds", one.folds}, {"axes", one.axes}};
  for (const PlacedOp &op : layouts.ops) {
    Json lines = Json::array(), operands = Json::array();
    for (const TextPlace &place : op.places)
      lines.push_back(place.line);
    for (const auto &[shape, sharding] : op.operands)
      operands.push_back(
          {{"shape", shape}, {"axes", sharding.partial.empty() ? Json(axesOf(layouts.mesh, sharding)) : Json()}});
    root["ops"].push_back({{"name", op.key},
                           {"lines", lines},
                           {"shape", op.shape},
                           {"axes", op.result ? Json(axesOf(layouts.mesh, *op.result)) : Json()},
                           {"operands", operands}});
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text programInfo(const Text &folder) {
  return take(runtime::loadPackage(folder)).program.info.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

void addTraining(nb::module_ &m) {
  using Trainer = Running<training::Trainer>;
  addEngine<training::Trainer>(m, "Trainer", "A model in training.")
      .def("save_weights",
           [](Trainer &its, const Text &path) {
             take(its.call([&](training::Trainer &trainer) { return trainer.saveWeights(path); }));
           })
      .def("plan", [](Trainer &its) { return toJson(its.engine.plan()); })
      .def("report", [](Trainer &its) { return toJson(its.engine.report()).dump(); })
      .def("report_text", [](Trainer &its) { return toText(its.engine.report()); })
      .def("notes", [](Trainer &its) { return asKeywords(its.engine.notes()); })
      .def("warnings", [](Trainer &its) { return asKeywords(its.engine.report().warnings); });
  addEngine<runtime::Session>(m, "Session", "A package that is loaded on its ranks.");
  m.def("make_trainer", &makeTrainer, nb::arg("model").none(), nb::arg("plan").none(), nb::arg("settings"),
        nb::arg("cluster").none(), nb::arg("weights"), nb::arg("device"), nb::arg("threads"), nb::arg("native"),
        nb::arg("on_nan"), nb::arg("first_step") = 0);
  m.def("make_session", &makeSession, nb::arg("folder"), nb::arg("settings"), nb::arg("weights"), nb::arg("device"),
        nb::arg("threads"), nb::arg("on_nan"));
  m.def("compile", &compile, nb::arg("model").none(), nb::arg("plan").none(), nb::arg("settings"),
        nb::arg("cluster").none(), nb::arg("folder"), nb::arg("native"), nb::call_guard<nb::gil_scoped_release>());
  m.def("parameter_layouts", &parameterLayouts, nb::arg("model").none(), nb::arg("plan").none(), nb::arg("settings"),
        nb::arg("cluster").none(), nb::call_guard<nb::gil_scoped_release>());
  m.def("placements", &placements, nb::arg("model").none(), nb::arg("plan").none(), nb::arg("settings"),
        nb::arg("cluster").none(), nb::call_guard<nb::gil_scoped_release>());
  m.def("program_info", &programInfo, nb::arg("folder"), nb::call_guard<nb::gil_scoped_release>());
}

} // namespace kerf::python
