#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"
#include "src/forecast/collective_forecast.h"
#include "src/forecast/explanation.h"
#include "src/forecast/forecast.h"
#include "src/forecast/long_run.h"
#include "src/forecast/memory_summary.h"
#include "src/forecast/training_run.h"
#include "src/forecast/values.h"
#include "src/forecast/what_if.h"
#include "src/formats/measured_memory.h"
#include "src/report/answer.h"
#include "src/report/command_text.h"
#include "src/report/table.h"
#include "src/scenario/scenario.h"
#include "src/validate/step_causes.h"

namespace stepcast::report {

// Memory-saving settings, and the forecast of a step with these settings.
struct FittingSettings {
  std::vector<std::string> set;  // "KEY=VALUE", in addition to the scenario's settings
  Time step_time;
  Bytes left;  // free memory of the fullest device; negative: memory that the device lacks
  double fit_probability = 0;
};

// The memory-saving settings that were tried, separately and combined.
struct Fitting {
  std::vector<FittingSettings> settings;   // settings that make the step fit, fastest first
  std::optional<FittingSettings> nearest;  // if no settings fit: the settings nearest to fitting
  Time step_time;                          // step time without these settings
  int forecasts = 0;                       // number of steps that were forecast
  bool stopped = false;                    // the time limit ended the attempts
  CommandWords command;                    // command that forecasts the step; may be empty
};

// Returns the settings as a text table, with the commands that forecast them. Empty if none were
// tried.
std::string FittingText(const Fitting& fitting);
// Returns the value of the JSON key `would_fit` in answers.
Json FittingJson(const Fitting& fitting);

// Explains, for `explain --measured`, why a measured step is slower or faster than its forecast.
// Lists settings and resources that could explain the complete difference and, for a traced step,
// the contribution of each cause.

// A setting change that was tried to explain a measured step time.
struct TriedSetting {
  std::vector<std::string> set;  // "KEY=VALUE"
  Time step_time;
  double explains = 0;    // fraction of the difference that the setting explains
  const char* next = "";  // hint on the next check
};

struct MeasuredStep {
  Time measured;
  std::int64_t number = 0;                           // number of a traced step: ProfilerStep#
  std::optional<validate::StepCauses> causes;        // not set if only the time is known
  std::optional<bool> in_range;                      // not set if the forecast has no range
  std::vector<TriedSetting> settings;                // the best explanation first
  std::vector<forecast::ExplainingSpeed> resources;  // the best explanation first
};

// The rates that `calibrate trace` learned from a traced step.

// Kernels of one kind, or the host's launches, in the steps of the traced ranks.
struct LearnedRate {
  const char* part = "";  // "products" (GEMMs), ...
  std::int64_t forecast_calls = 0, traced_calls = 0;
  Time forecast{}, traced{};  // total times; for launches, the mean time between two launches
  double factor() const { return traced / forecast; }
};

struct LearnedTable {
  CollectiveKind collective = CollectiveKind::kAllReduce;
  int ranks = 0, nodes = 0;
  std::size_t sizes = 0;
};

struct LearnedRates {
  std::string source;       // the trace file or folder
  std::int64_t number = 0;  // number of the step
  std::size_t ranks = 1;    // number of traced ranks
  std::vector<LearnedRate> rates;
  std::vector<LearnedTable> tables;
  std::vector<std::string> notes;  // reasons why some rates could not be learned
  Time traced{}, forecast{};       // time of the step
  std::optional<Time> learned{};   // the step's forecast with the written profile
  std::string written;             // path of the written profile; empty: no profile
};

std::string LearnedRatesText(const LearnedRates& learned);
// Returns the document of `calibrate trace --json`, version 1.
std::string LearnedRatesJson(const LearnedRates& learned);

// Returns a profile as a YAML file with one row per point. scenario::LoadCalibration reads the same
// values from the file, except source positions. Empty sections are omitted. Control characters in
// text become spaces.
std::string CalibrationYaml(const calibration::Calibration& profile);

// Returns the text of `profile` with `sections` added. Each section replaces the section of the
// same name, including the comments directly before it, or is appended at the end.
std::string WithSections(const std::string& profile, const std::string& sections);

// The content of a rate file. A profile names its rate file in `kernels.rates`. `costs` has only
// GEMMs, attention and power.
struct Rates {
  std::string name;    // name of the GPU type
  std::string source;  // source of the measurements
  std::vector<std::string> comments;
  calibration::KernelCosts costs;
};
std::string RatesYaml(const Rates& rates);

// Returns published collectives (calibration/collectives) in the format that scenario::LoadCurves
// reads.
std::string CurvesYaml(const calibration::CurveFile& file);

// The output of `stepcast collective`: a table in the format of nccl-tests, with the algorithm of
// each size and the source of each time.

// Returns the output as text. `name` is the name of the scenario.
std::string CollectiveText(const std::string& name, const forecast::CollectiveForecast& forecast);
// Returns CSV: a heading line with the keys of the JSON rows, then the rows. Protocol and channels
// may be empty.
std::string CollectiveCsv(const forecast::CollectiveForecast& forecast);
// Returns the document of `collective --json`, version 1.
std::string CollectiveJson(const std::string& name, const forecast::CollectiveForecast& forecast);
// Returns the output as one HTML page, with the messages of the algorithms. `steps` is the result
// of StepsOf.
std::string CollectivePage(const scenario::Scenario& scenario,
                           const forecast::CollectiveForecast& forecast,
                           const std::vector<forecast::CollectiveSteps>& steps);

// One of two plans to compare. Does not own the scenario and the forecast.

struct ComparedPlan {
  std::string file;  // file name as the user wrote it
  const scenario::Scenario* scenario = nullptr;
  const forecast::Forecast* forecast = nullptr;
};

// The result of checking one --fail-if limit on two plans.
struct GuardVerdict {
  std::string guard;    // condition as the user wrote it
  double a = 0, b = 0;  // value of each plan: seconds, bytes or tokens per second
  bool failed = false;
  // The result in words, such as "fails: step_time is 79.2 ms in B and 44.8 ms in A, +34.5 ms
  // (+77.0 %)".
  std::string sentence{};
};

// Returns the comparison as text. All differences are `b` minus `a`.
std::string CompareText(const ComparedPlan& a, const ComparedPlan& b,
                        const std::vector<GuardVerdict>& guards = {});

// Returns the document of `compare --json`, version 1. All keys except the last, `run`, depend only
// on the input. `seconds` is the wall-clock time of the run.
std::string CompareJson(const ComparedPlan& a, const ComparedPlan& b, double seconds,
                        const std::vector<GuardVerdict>& guards = {});

// Returns the report as one HTML page.
std::string ComparePage(const ComparedPlan& a, const ComparedPlan& b,
                        const std::vector<GuardVerdict>& guards = {});

// The output of `explain`: the critical path, exposed communication, the effect of faster
// resources, and the memory at the peak.

// Returns the explanation as text. `measured` lists possible explanations of a measured step time;
// null: no measurement.
std::string ExplainText(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation,
                        const MeasuredStep* measured = nullptr);

// Returns the document of `explain --json`, version 1. `seconds` is the wall-clock time of the run.
std::string ExplainJson(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation, double seconds,
                        const MeasuredStep* measured = nullptr);

// Returns the report as one HTML page.
std::string ExplainPage(const scenario::Scenario& scenario,
                        const forecast::Explanation& explanation,
                        const MeasuredStep* measured = nullptr);

// The output of `memory`: for each ZeRO stage, the memory by the textbook formula and the simulated
// peak.

struct StageMemory {
  int stage = 0;
  forecast::BytesByCategory formula{};
  // The memory of the simulated step. Not set if the framework does not support this stage, or if
  // the combination is illegal.
  std::optional<forecast::MemoryForecast> simulated;
  std::string reason;  // the reason why `simulated` is not set
  // The largest micro-batch that fits. Not set if the limit was not requested, or if the stage
  // cannot be simulated.
  std::optional<forecast::MicroBatchLimit> limit{};
};

struct MemoryReport {
  int own_stage = 0;  // the scenario's stage; must be in `stages` and simulated
  std::vector<StageMemory> stages;
};

std::string MemoryText(const scenario::Scenario& scenario, const MemoryReport& report);

// Returns the document of `memory --json`, version 1. If the scenario's stage does not fit, the
// document includes `fitting`, the settings that make it fit.
std::string MemoryJson(const scenario::Scenario& scenario, const MemoryReport& report,
                       double seconds, const Fitting* fitting = nullptr);

// Returns the report as one HTML page.
std::string MemoryPage(const scenario::Scenario& scenario, const MemoryReport& report,
                       const Fitting* fitting = nullptr);

// Compares a job's measured memory with its forecast. If the measurement combines several
// categories, these categories share a row.

struct MeasuredComparison {
  std::string scenario;  // name of the scenario
  std::string file;      // the file of the measurement
  const formats::MeasuredMemory* measured = nullptr;
  const forecast::MemoryForecast* forecast = nullptr;
};

// Returns the comparison as text. Differences are forecast minus measured, in per cent of the
// measured value.
std::string MeasuredMemoryText(const MeasuredComparison& comparison);

// Returns the document of `compare --memory --json`, version 1. All keys except the last, `run`,
// depend only on the input. `seconds` is the wall-clock time of the run.
std::string MeasuredMemoryJson(const MeasuredComparison& comparison, double seconds);

// Returns the document of `simulate --json`, version 1. All keys except the last, `run`, depend
// only on the input. `seconds` is the wall-clock time of the run; `target` describes the training.
std::string SimulateJson(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         double seconds, const forecast::TrainingTarget& target = {},
                         const Fitting& fitting = {});

// Returns the text output of `simulate`: the scenario, the step time with its breakdown,
// collectives, and memory. The text depends only on the input. `target` describes the training.
std::string SimulateText(const scenario::Scenario& scenario, const forecast::Forecast& forecast,
                         const forecast::TrainingTarget& target = {});

// Returns the verdict on memory, such as "fits: 12 GiB of 80 GiB remain free". Other verdicts start
// with "may not fit" or "does not fit".
std::string MemorySentence(const forecast::MemoryForecast& memory);

// The output of `run-time`: the duration of a training run including failures, its cost, and the
// factors that determine both.

std::string RunTimeText(const scenario::Scenario& scenario, const forecast::WholeRun& run);

// Returns the document of `run-time --json`, version 1.
std::string RunTimeJson(const scenario::Scenario& scenario, const forecast::WholeRun& run,
                        double seconds);

// Returns the content of RunTimeText as one HTML page.
std::string RunTimePage(const scenario::Scenario& scenario, const forecast::WholeRun& run);

// The output of `stepcast serve`: one line with a JSON object for each question (docs/library.md).

// Returns the line that answers a question. `id` is the question's id, as JSON. `document` is the
// document that the command prints with --json.
std::string AnswerLine(std::string_view id, std::string_view document);
// Returns the line that reports mistakes in a question or in its input files.
std::string MistakesLine(std::string_view id, const Diagnostics& mistakes);
// Returns the line with the reason why a valid question has no answer.
std::string FailureLine(std::string_view id, const std::string& reason);

// Draws the timeline of one step for a terminal. Streams are rows, and time is divided into
// columns.

// Returns a drawing of the forecast's step with a time scale and a legend of the letters. If the
// style's width is at least 40 columns, no line is wider than this width. Each cell shows the kind
// of operation that uses most of the cell's time. The letter is lowercase if the cell is busy for
// less than half of its time. The text ends in a newline.
std::string TimelineText(const forecast::Run& run, const TerminalStyle& style);

}  // namespace stepcast::report
