#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/forecast/training_run.h"

// What commands are told of the training that a step is one of, as text.
namespace stepcast::study {

struct TrainingQuestion {
  std::string tokens;        // "15T", "300B", "300e9"; empty: not said
  std::string deadline;      // "30 d"; empty: none
  std::string price;         // of a GPU hour: "2.5", "$2.5"; empty: not said
  std::string availability;  // "0.9", "90%"; empty: not said
};

// What is wrong goes to `faults`, located at "--deadline VALUE" and so on.
forecast::TrainingTarget ReadTraining(const TrainingQuestion& question, Diagnostics& faults);

// "10s", "2 min", "12 h", "30 d": above zero, in seconds.
std::optional<double> LongTime(std::string_view text);
// "300e9", above zero; no units, no separators.
std::optional<double> PositiveNumber(std::string_view text);

Diagnostic WrongOption(const char* option, const std::string& value, std::string message,
                       std::string hint);

}  // namespace stepcast::study
