#pragma once

// Pages about an evaluation: tables for a terminal, HTML, CSV and JSON; and the comparison of claimed with measured
// speedups.

#include <string>
#include <utility>
#include <vector>

#include "cli/kernelbench/results.h"

namespace hone::cli {

/// Summaries of each level in order, then of all: {"level 1", ...}, {"all", ...}.
std::vector<std::pair<std::string, EvalSummary>> SummariesByLevel(const std::vector<EvalResult>& results);

std::string FormatTables(const std::vector<EvalResult>& results);
std::string FormatCsv(const std::vector<EvalResult>& results);
std::string FormatJson(const std::vector<EvalResult>& results);
std::string FormatHtml(const std::string& title, const std::string& subtitle, const std::vector<EvalResult>& results);

/// One protocol's results, for comparison with what was claimed.
struct MeasuredClaims {
  std::string protocol;
  std::vector<EvalResult> results;
};

/// Why a claim and a measurement differ, in a few words: "wrong result", "plain PyTorch", "does not build", "noise",
/// ... "agrees" where the claim lies within 10 % of the interval.
std::string ReasonOf(const EvalResult& result);

/// docs/cuda_l1_remeasured.md: how the candidates build, what became of the claims by reason, and one line a candidate.
/// `where_built` counts candidates by how they ask for their extension: {"inside try", 59}, ... `library`: evaluations
/// of any of them under the policy that lets PyTorch compute; may be empty.
std::string FormatClaims(const std::vector<MeasuredClaims>& measured,
                         const std::vector<std::pair<std::string, int>>& where_built,
                         const std::vector<MeasuredClaims>& library);

}  // namespace hone::cli
