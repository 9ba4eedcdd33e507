#pragma once

#include <functional>
#include <string>
#include <vector>

#include "src/base/question.h"
#include "src/study/training_question.h"

namespace stepcast::planner {
struct SearchProgress;
}

namespace stepcast::study {

// The question of a search for plans, as text. To add a setting, write its member and its row here,
// and its effect in plan_search.cc. Commands, `serve` and the libraries take it from the row.
struct PlanQuestion {
  std::string scenario;
  std::vector<std::string> set;  // "KEY=VALUE"

  std::string target = "step_time";
  std::string framework;          // "all", "NAME,NAME"; empty: those searched by default
  std::string only;               // "data,tensor": axes that may exceed 1; empty: all
  std::vector<std::string> vary;  // "KEY=V1,V2,...", ranges, "KEY=all"
  std::vector<std::string> fix;   // "KEY"
  bool fewer_nodes = false;
  TrainingQuestion training;
  std::string headroom;  // memory that must stay free: "4 GiB", "5%", "0";
                         // empty: the error of memory forecasts
  void DescribeGoal(Question& question) {
    question.Option("--target", &target, "NAME", "What the best plan has (step_time)")
        .Offers({"step_time", "throughput", "gpus", "cost", "memory"});
    question.Option("--framework", &framework, "NAME,...",
                    "Frameworks to choose from (all, but reference and nanotron)");
    question.Option("--only", &only, "KIND,...",
                    "What is divided, of data, tensor, pipeline, context, expert (all)");
    question.Option("--vary", &vary, "KEY=VALUES",
                    "The values of a setting to choose from, as often as needed");
    question.Option("--fix", &fix, "KEY", "A setting that stays as the scenario has it");
    question.Flag("--fewer-nodes", &fewer_nodes,
                  "Try parts of a node, and powers of two of nodes (target gpus always does)");
    training.Describe(question);
    question.Option(
        "--headroom", &headroom, "SIZE|PERCENT",
        "Memory that must stay free on each device, beside what the plan needs (the error of "
        "the forecast's memory, see docs/uncertainty.md): '4 GiB', '5%', 0");
  }

  // Number of plans to rank. 0: five. In a space of more than kMostPlansWithAll plans only the
  // first of them is proved; the others are the best simulated ones.
  int best = 0;
  // Whether to find the Pareto front. If neither is set: in spaces of at most kMostPlansWithAll
  // plans.
  bool front = false, no_front = false;
  std::string why;  // "5": number of runners-up to list; "tensor=8,pipeline=16": a layout to rank
  std::string within;  // "10s": time limit; empty: until the proof is complete
  // Likewise, for the changes that would improve the best plan.
  bool sensitivity = false, no_sensitivity = false;
  void DescribeAnswer(Question& question) {
    constexpr int kMostRows = 1000;
    question
        .Option(
            "--best", &best, "N",
            "How many plans to rank and prove (5; of more than 20,000 only the first is proved)")
        .Between(1, kMostRows);
    question.Flag("--front", &front,
                  "Find the Pareto front among more than 20,000 plans, too: most of the time");
    question.Flag("--no-front", &no_front, "Leave out the Pareto front");
    question.Option("--why", &why, "N|LAYOUT",
                    "Name so many runners-up, or say where a layout stands (tensor=8,pipeline=16), "
                    "with the reason of each");
    question.Option("--within", &within, "TIME",
                    "End with what was found after TIME (10s), and say what is not proved");
    question.Flag("--sensitivity", &sensitivity,
                  "Find what would change the best of more than 20,000 plans, too");
    question.Flag("--no-sensitivity", &no_sensitivity,
                  "Leave out what more of each resource or another setting would change");
  }

  int threads = 0;      // per process; 0: one per usable core
  std::string folder;   // where the best plan is written; empty: nowhere
  bool force = false;   // replaces the plan in the folder
  bool try_own = true;  // start with the scenario's own plan
  // Receives the progress of the search, from one thread at a time. May be empty.
  std::function<void(const planner::SearchProgress&)> progress;
};

}  // namespace stepcast::study
