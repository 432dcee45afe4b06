// SPDX-License-Identifier: Apache-2.0
// Evaluation on held-out data (--eval-data) and the texts of its results.
#pragma once

#include "RunOptions.h"
#include <nlohmann/json.hpp>

namespace kerf::tool {

/// Opens the data of --eval-data; returns nothing without --eval-data. Fails when the data cannot be read, or when
/// --eval-every or --eval-steps is given without --eval-data.
Result<std::optional<runtime::DataSet>> openEvaluation(const RunFlags &flags);

/// Returns the options of the evaluations of a run of `steps` steps. `samples` is true when the first axis of the data
/// counts samples instead of batches. `data` must outlive the run.
runtime::EvaluationOptions evaluationOptions(const RunFlags &flags, const std::optional<runtime::DataSet> &data,
                                             bool samples, int64_t steps);

/// Returns one line of the log as JSON: {"step": 99, "eval_loss": 3.2, "eval_perplexity": 24.5, "seconds": 0.8}. The
/// perplexity, exp(loss), is present when the program computes a cross entropy.
nlohmann::ordered_json evaluationJson(const package::Program &program, const runtime::Evaluation &evaluation);
/// Returns the results of one evaluation as a line of text for the user.
std::string evaluationText(const package::Program &program, const runtime::Evaluation &evaluation);

} // namespace kerf::tool
