// SPDX-License-Identifier: Apache-2.0
// The report of a plan that was searched op by op, as JSON. One list of fields serves both writing and reading.
#include "kerf/Report/Report.h"

#include <fmt/format.h>

namespace kerf {

using Json = nlohmann::ordered_json;

namespace {

/// Writes fields to `json`, or reads fields from `json` if `reading` is true.
struct Fields {
  Json &json;
  bool reading;

  template <typename T> void plain(const char *name, T &value) {
    if (reading)
      value = json.at(name).get<T>();
    else
      json[name] = value;
  }
  template <typename T, typename F> void list(const char *name, std::vector<T> &values, F fieldsOf) {
    if (!reading)
      json[name] = Json::array();
    size_t count = reading ? json.at(name).size() : values.size();
    if (reading)
      values.resize(count);
    for (size_t i = 0; i < count; ++i) {
      Json item = reading ? json.at(name).at(i) : Json::object();
      Fields inner{item, reading};
      fieldsOf(inner, values[i]);
      if (!reading)
        json[name].push_back(std::move(item));
    }
  }
  template <typename T, typename F> void object(const char *name, T &value, F fieldsOf) {
    Json item = reading ? json.at(name) : Json::object();
    Fields inner{item, reading};
    fieldsOf(inner, value);
    if (!reading)
      json[name] = std::move(item);
  }
};

void memoryFields(Fields &f, Report::Memory &m) {
  f.plain("parameters", m.parameters);
  f.plain("gradients", m.gradients);
  f.plain("states", m.states);
  f.plain("activations", m.activations);
  f.plain("inputs", m.inputs);
  f.plain("total", m.total);
}

void stepsFields(Fields &f, Report::StageSteps &s) {
  f.plain("stage", s.stage);
  f.list("passes", s.passes, [](Fields &f, Report::StepPass &p) {
    f.plain("name", p.name);
    f.plain("what", p.description);
    f.plain("changed", p.changed);
  });
  f.list("buckets", s.buckets, [](Fields &f, Report::Bucket &b) {
    f.plain("op", b.op);
    f.plain("stream", b.stream);
    f.plain("collectives", b.collectives);
    f.plain("bytes", b.bytes);
  });
}

void reportFields(Fields &f, Report &r) {
  f.plain("model", r.model);
  f.plain("cluster", r.cluster);
  f.plain("ranks", r.ranks);
  f.plain("used_ranks", r.usedRanks);
  f.list("mesh", r.mesh.axes, [](Fields &f, MeshAxis &axis) {
    f.plain("name", axis.name);
    f.plain("size", axis.size);
  });
  if (f.reading ? f.json.contains("execution") : !r.execution.empty())
    f.plain("execution", r.execution);
  f.plain("step_seconds", r.stepSeconds);
  f.plain("lower_bound_seconds", r.lowerBoundSeconds);
  f.plain("compute_seconds", r.computeSeconds);
  f.plain("collective_seconds", r.collectiveSeconds);
  f.plain("memory_limit_bytes", r.memoryLimitBytes);
  f.plain("memory_seconds_per_byte", r.secondsPerByte);
  f.object("memory_bytes", r.memory, memoryFields);
  f.list("strategies", r.ops, [](Fields &f, Report::Op &op) {
    f.plain("op", op.key);
    f.plain("strategy", op.strategy);
    f.plain("calls", op.calls);
    f.plain("seconds", op.seconds);
    f.plain("other", op.nextBestStrategy);
    f.plain("other_seconds", op.nextBestExtraSeconds);
  });
  f.list("collectives", r.collectives, [](Fields &f, Report::Collective &c) {
    f.plain("kind", c.kind);
    f.plain("axes", c.axes);
    f.plain("cause", c.cause);
    f.plain("stream", c.stream);
    f.plain("calls", c.calls);
    f.plain("bytes", c.bytes);
    f.plain("seconds", c.seconds);
  });
  if (f.reading ? f.json.contains("steps") : !r.steps.empty())
    f.list("steps", r.steps, stepsFields);
  f.list("runners_up", r.alternatives, [](Fields &f, Report::Alternative &a) {
    f.plain("what", a.description);
    f.plain("rejected", a.rejected);
    f.plain("step_seconds", a.stepSeconds);
    f.plain("peak_bytes", a.peakBytes);
  });
  f.list("trained", r.trained, [](Fields &f, Report::Parameter &p) {
    f.plain("name", p.name);
    f.plain("shape", p.shape);
  });
  if (f.reading ? f.json.contains("types") : !r.types.empty())
    f.list("types", r.types, [](Fields &f, Report::Type &t) {
      f.plain("what", t.description);
      f.plain("type", t.type);
    });
  f.plain("warnings", r.warnings);
  if (f.reading ? f.json.contains("measured_step_seconds") : r.measuredStepSeconds > 0)
    f.plain("measured_step_seconds", r.measuredStepSeconds);
  if (f.reading ? f.json.contains("measured_communication_seconds") : r.measuredCommunicationSeconds > 0) {
    f.plain("measured_communication_seconds", r.measuredCommunicationSeconds);
    f.plain("measured_hidden_seconds", r.measuredHiddenSeconds);
  }
  if (f.reading ? f.json.contains("measured_memory_bytes") : r.measuredMemory.has_value()) {
    if (f.reading)
      r.measuredMemory.emplace();
    f.object("measured_memory_bytes", *r.measuredMemory, memoryFields);
  }
}

} // namespace

Json toJson(const Report &report) {
  Json json = Json::object();
  Report copy = report;
  Fields fields{json, false};
  reportFields(fields, copy);
  return json;
}

Json toJson(const std::vector<Report::StageSteps> &steps) {
  Json json = Json::object();
  std::vector<Report::StageSteps> copy = steps;
  Fields{json, false}.list("steps", copy, stepsFields);
  return json["steps"];
}

Result<Report> parseReport(const Json &json, const std::string &where) {
  try {
    Report report;
    Json copy = json;
    Fields fields{copy, true};
    reportFields(fields, report);
    return report;
  } catch (const nlohmann::json::exception &error) {
    return Error{fmt::format("{}: the report in this file is damaged: {}; make the plan again", where, error.what())};
  }
}

} // namespace kerf
