#pragma once

#include <string>

#include "src/report/json.h"
#include "src/report/plan_report.h"

// The part of the output of `plan` that answers by kind, and for a named layout. For the .cc files
// of this package only.
namespace stepcast::report {

// "tensor 8, pipeline 7 x 15": how the plan's ranks share out model and sequences; "data 16" where
// they share out the batch alone.
std::string LayoutText(const plan::Plan& plan);
// Why a plan takes longer than another: "2,100.000 ms more waiting in the pipeline"; empty where
// that is not known.
std::string WhyLonger(const PlanRow& plan, const PlanRow& than);

// "megatron, tensor 2, data 4, ZeRO 1, mbs 2, recompute full": what tells plans apart at first
// sight.
std::string PlanInShort(const PlanRow& row);

std::string KindsText(const PlanReport& report);
Json KindsJson(const PlanReport& report);
std::string LayoutAnswerText(const PlanReport& report);
Json LayoutAnswerJson(const PlanReport& report);

}  // namespace stepcast::report
