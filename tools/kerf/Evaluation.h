// SPDX-License-Identifier: Apache-2.0
// What --eval-data asks for, and how its results are told.
#pragma once

#include "Options.h"

namespace kerf::tool {

/// The held-out data; nothing without --eval-data. Its options without it are an error.
Result<std::optional<runtime::DataSet>> openEvaluation(const RunFlags &flags);

/// How often and on which batches; `data` must outlive the run.
runtime::EvaluationOptions evaluationOptions(const RunFlags &flags, const std::optional<runtime::DataSet> &data,
                                             bool samples, int64_t steps);

/// {"step": 99, "eval_loss": 3.2, "eval_perplexity": 24.5, "seconds": 0.8}: one line of the log. The perplexity is
/// there where the program has a cross entropy.
nlohmann::ordered_json evaluationJson(const package::Program &program, const runtime::Evaluation &evaluation);
/// The same as a line for people.
std::string evaluationText(const package::Program &program, const runtime::Evaluation &evaluation);

} // namespace kerf::tool
