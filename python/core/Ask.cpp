// SPDX-License-Identifier: Apache-2.0
// The questions of kerf: plan, simulate, explain, verify, and the readers of plans and clusters.
#include "Calls.h"
#include "Texts.h"
#include "kerf/Compiler/PlanJob.h"
#include "kerf/Compiler/Verify.h"
#include "kerf/CostModel/Margin.h"
#include "kerf/CostModel/Trainer.h"
#include "kerf/Profile/Profile.h"
#include "kerf/Report/ExplainText.h"
#include "kerf/Report/StepText.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace kerf::python {

namespace {

using Json = nlohmann::ordered_json;
using Text = std::string;
using MaybeText = std::optional<std::string>;

Json planJson(const Plan &plan) { return Json::parse(toJson(plan)); }

Json toJson(const FoundPlan &found) {
  return {{"plan", planJson(found.plan)}, {"simulation", kerf::toJson(found.simulation)}};
}

Text plan(const ModelSource &model, const Text &settings, const MaybeText &cluster, const MaybeText &constraints,
          const MaybeText &start, bool pareto, Progress progress) {
  PlanQuestion question{model, jsonFrom(settings)};
  question.cluster = clusterFrom(cluster);
  if (constraints)
    question.constraints = take(parsePlan(*constraints, "constraints="));
  question.constraintsFile = "constraints=";
  if (start)
    question.from = take(parsePlan(*start, "start="));
  question.pareto = pareto;
  Watch watch(std::move(progress));
  question.progress = [&](double best, double bound) { watch.tell(best, bound); };
  question.stop = [&] { return watch.stop(); };
  auto context = createContext();
  auto planned = planJob(*context, question);
  watch.rethrow();
  PlannedJob found = take(std::move(planned));
  Json root = {{"plan", planJson(found.plan)},
               {"text", found.text},
               {"warnings", asKeywords(found.warnings)},
               {"notes", asKeywords(found.notes)},
               {"interrupted", watch.interrupted()}};
  root["others"] = Json::array();
  for (const FoundPlan &other : found.others)
    root["others"].push_back(toJson(other));
  root["pareto"] = Json::array();
  for (const ParetoPlan &one : found.pareto)
    root["pareto"].push_back({{"ranks", one.ranks}, {"device_bytes", one.deviceBytes}, {"found", toJson(one.plan)}});
  root["price_per_hour"] = found.pricePerHour;
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text simulate(const std::optional<ModelSource> &model, const MaybeText &plan, const Text &settings,
              const MaybeText &cluster, bool report) {
  ResolvedUse use = take(resolveUse(useOf(model, plan, settings, cluster)));
  SimulateOptions options;
  options.step = use.settings.model.toStepOptions();
  options.dtype = use.settings.model.dtype;
  if (!use.settings.search.trainer.empty())
    options.trainer = findTrainer(use.settings.search.trainer);
  if (use.settings.search.ranks)
    options.ranks = use.settings.search.ranks;
  options.trace = report ? Trace::Yes : Trace::No;
  Cluster machine = withMargin(use.cluster, use.settings.search.margin);
  auto context = createContext();
  SimulatedPlan simulated =
      take(simulatePlan(*context, use.model, planFrom(plan), plan ? "the plan" : "the empty plan", machine, options));
  Json root = {{"simulation", kerf::toJson(simulated.simulation)},
               {"plan", planJson(simulated.plan)},
               {"text", toText(simulated.simulation, simulated.mesh.ranks(), machine.name)},
               {"warnings", asKeywords(simulated.warnings)}};
  root["simulation"]["model_flops"] = simulated.work.modelFlops;
  root["simulation"]["ranks"] = simulated.mesh.ranks();
  if (report) {
    StepReport full = take(reportOn(use.model.name, simulated.cluster, simulated));
    full.warnings = asKeywords(full.warnings);
    root["report"] = kerf::toJson(full);
    root["report_text"] = toText(full);
    root["html"] = toHtml(full);
    root["trace"] = chromeTrace(simulated.simulation);
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text explainPlans(const std::optional<ModelSource> &model, const Text &plan, const MaybeText &other, const Text &op,
                  const std::vector<Text> &whatIf, const Text &trainer, Progress progress) {
  ExplainRequest request{"the plan", take(parsePlan(plan, "the plan")), "the other plan"};
  if (other)
    request.other = take(parsePlan(*other, "the other plan"));
  request.op = op;
  request.changes = {whatIf, trainer, model};
  Watch watch(std::move(progress));
  request.stop = [&] { return watch.stop(); };
  auto context = createContext();
  auto answer = explain(*context, request);
  watch.rethrow();
  Answer taken = take(std::move(answer));
  return Json{{"json", std::move(taken.json)}, {"text", asKeywords(taken.text)}, {"interrupted", watch.interrupted()}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text verify(const std::optional<ModelSource> &model, const Text &plan, const Text &settings, const MaybeText &cluster) {
  ResolvedUse use = take(resolveUse(useOf(model, plan, settings, cluster)));
  VerifyRequest request{use.model,
                        use.settings.model.toStepOptions(),
                        use.settings.model.dtype,
                        planFrom(plan),
                        "the plan",
                        use.cluster,
                        use.knownMachines};
  request.margin = use.settings.search.margin;
  VerifyResult verified = take(verifyPlan(request));
  Status passed = verdict(verified, "the plan");
  return Json{{"json", toJson(verified)},
              {"text", asKeywords(toText(verified, "the plan", use.model.isConfig()))},
              {"passed", bool(passed)},
              {"status", static_cast<int>(passed ? ExitStatus::Ok : passed.error().status)},
              {"message", passed ? "" : asKeywords(passed.error().message)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Returns the report that a plan of the search over placements stores, as text, JSON and HTML.
Text placementReport(const Text &plan) {
  Plan saved = take(parsePlan(plan, "the plan"));
  if (!saved.keptKeys.contains("report"))
    throw KerfError({"the plan has no report; give a plan of kerf.plan, or use kerf.simulate"});
  Report report = take(parseReport(saved.keptKeys["report"], "the plan"));
  auto job = take(readJob(saved, "the plan"));
  return Json{{"report", kerf::toJson(report)},
              {"report_text", toText(report)},
              {"html", toHtml(report, job && job->cluster ? &*job->cluster : nullptr)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

Text profile(int64_t ranks, bool quick, const Text &device, const std::function<void(Text)> &progress) {
  ProfileOptions options;
  options.ranks = ranks;
  options.effort = quick ? ProfileOptions::Effort::Quick : ProfileOptions::Effort::Full;
  options.onProgress = [&](const Text &what) {
    nb::gil_scoped_acquire gil;
    progress(what);
  };
  if (device != "cpu" && device != "cuda" && device != "ascend")
    throw KerfError({"<device> is '" + device + "'; it has to be one of cpu, cuda, ascend"});
  return toJson(take(device == "cpu" ? profileCpu(options) : profileAccelerators(device, options)).cluster);
}

} // namespace

Json jsonFrom(const Text &text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    throw KerfError({"the settings are not JSON"});
  return json;
}

std::optional<Cluster> clusterFrom(const MaybeText &text) {
  return text ? std::optional(take(parseCluster(*text, "cluster="))) : std::nullopt;
}

Plan planFrom(const MaybeText &text) { return text ? take(parsePlan(*text, "the plan")) : Plan(); }

PlanUse useOf(const std::optional<ModelSource> &model, const MaybeText &plan, const Text &settings,
              const MaybeText &cluster) {
  return {planFrom(plan), "the plan", model, jsonFrom(settings), clusterFrom(cluster)};
}

void addQuestions(nb::module_ &m) {
  using Release = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<ModelSource>(m, "ModelSource", "A model to import: a file, or text or bytes in memory.")
      .def_static(
          "file", [](const Text &path) { return ModelSource(path); }, nb::arg("path"))
      .def_static(
          "memory",
          [](const Text &format, nb::bytes data, const Text &name, const Text &signature) {
            if (format != "onnx" && format != "config" && format != "mlir")
              throw KerfError({"a model in memory is of the format onnx, config or mlir, not '" + format + "'"});
            ModelFormat its = format == "onnx"     ? ModelFormat::Onnx
                              : format == "config" ? ModelFormat::Config
                                                   : ModelFormat::Mlir;
            ModelSource source = ModelSource::inMemory(its, Text(data.c_str(), data.size()), name);
            source.signature = signature;
            return source;
          },
          nb::arg("format"), nb::arg("data"), nb::arg("name"), nb::arg("signature"))
      .def_ro("name", &ModelSource::name);
  m.def("plan", &plan, nb::arg("model"), nb::arg("settings"), nb::arg("cluster").none(), nb::arg("constraints").none(),
        nb::arg("start").none(), nb::arg("pareto"), nb::arg("progress").none(), Release());
  m.def("simulate", &simulate, nb::arg("model").none(), nb::arg("plan").none(), nb::arg("settings"),
        nb::arg("cluster").none(), nb::arg("report"), Release());
  m.def("explain", &explainPlans, nb::arg("model").none(), nb::arg("plan"), nb::arg("other").none(), nb::arg("op"),
        nb::arg("what_if"), nb::arg("trainer"), nb::arg("progress").none(), Release());
  m.def("verify", &verify, nb::arg("model").none(), nb::arg("plan"), nb::arg("settings"), nb::arg("cluster").none(),
        Release());
  m.def("placement_report", &placementReport, nb::arg("plan"), Release());
  m.def("profile", &profile, nb::arg("ranks"), nb::arg("quick"), nb::arg("device"), nb::arg("progress"), Release());
  m.def(
      "parse_plan", [](const Text &text, const Text &where) { return toJson(take(parsePlan(text, where))); },
      nb::arg("text"), nb::arg("where"));
  m.def("read_plan", [](const Text &path) { return toJson(take(readPlan(path))); }, nb::arg("path"));
  m.def("cluster_ranks", [](const Text &text) { return take(parseCluster(text, "cluster")).ranks(); }, nb::arg("text"));
  m.def("plan_text", [](const Text &text) { return planText(take(parsePlan(text, "the plan"))); }, nb::arg("text"));
  m.def(
      "parse_cluster", [](const Text &text, const Text &where) { return toJson(take(parseCluster(text, where))); },
      nb::arg("text"), nb::arg("where"));
  m.def("read_cluster", [](const Text &path) { return toJson(take(readCluster(path))); }, nb::arg("path"));
  m.def("this_machine", [](int64_t ranks) { return toJson(take(thisMachine(ranks))); }, nb::arg("ranks"));
  m.def("sha256", [](const Text &text) { return sha256(text); }, nb::arg("text"));
}

} // namespace kerf::python
