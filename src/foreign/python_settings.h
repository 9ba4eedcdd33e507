#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "src/foreign/setting.h"

namespace stepcast::foreign {

// Limit on the total number of values of all names in a file.
inline constexpr std::size_t kMostPythonValues = 1'000'000;

inline constexpr std::string_view kUnderCondition = " under a condition";

// Reads the configuration that a function of a Python file returns, without executing code.
//   - Calls with keyword arguments become dotted names: `training=TrainingConfig(steps=10)` becomes
//     "training.steps", and "training" has the value "TrainingConfig". Arguments without a keyword
//     are "training.0".
//   - Local variables and calls of the file's own functions are evaluated, and so are sums and
//     products of numbers.
//   - Assignments to members of a call's result, `config.training.steps = 5`, change the result.
//   - All other code is an expression, which has no value.
//
// `function` is the name of the function to read. If `function` is empty, the file must have
// exactly one function that returns a call (`return Config(...)`). A function that calls a recipe
// (recipes.h) and changes the result is also read; the setting "recipe" is then the recipe's name.
// Code outside functions is the function "module", and code below `if __name__` is "__main__". An
// assignment below an `if` or a loop becomes a setting with a name that ends with kUnderCondition.
// The setting "function" is the function's name. Errors: foreign.missing, which lists the
// functions; foreign.syntax, for unclosed brackets or quotes.
Result<Document> ParsePythonSettings(std::string_view text, const std::string& file,
                                     const std::string& function);

}  // namespace stepcast::foreign
