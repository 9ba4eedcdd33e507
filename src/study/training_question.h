#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "src/base/diagnostic.h"
#include "src/base/question.h"

namespace stepcast::forecast {
struct TrainingTarget;
}

// A user's description of a training, as text.
namespace stepcast::study {

struct TrainingQuestion {
  std::string tokens;        // "15T", "300B", "300e9"; empty: unknown
  std::string deadline;      // "30 d"; empty: no deadline
  std::string price;         // price of a GPU hour: "2.5", "$2.5"; empty: unknown
  std::string availability;  // "0.9", "90%"; empty: unknown

  void Describe(Question& question) {
    question.Option("--tokens", &tokens, "N", "Number of training tokens: 15T, 300B, 300e9");
    question.Option("--deadline", &deadline, "TIME",
                    "Maximum duration of the training: '30 d', '12 h'");
    question.Option("--price", &price, "MONEY", "Price of one GPU for one hour: 2.5, '$2.5'");
    question.Option(
        "--availability", &availability, "PART",
        "Fraction of the time in which the GPUs train: 0.9, 90% (default: 100%, noted in "
        "the output)");
  }
};

// Parses the description. Mistakes are appended to `faults`, with a position such as "--deadline
// VALUE".
forecast::TrainingTarget ReadTraining(const TrainingQuestion& question, Diagnostics& faults);

// Parses a positive time such as "10s", "2 min", "12 h" or "30 d" and returns it in seconds. No
// value if the text is invalid.
std::optional<double> LongTime(std::string_view text);
// Parses a positive number such as "300e9", without units or separators. No value if the text is
// invalid.
std::optional<double> PositiveNumber(std::string_view text);

Diagnostic WrongOption(const char* option, const std::string& value, std::string message,
                       std::string hint);

}  // namespace stepcast::study
