#pragma once

#include <utility>

#include "tl/expected.hpp"

// Macros for functions that return a tl::expected. The macros return the error of another
// tl::expected, which must have the same type of error.

// Returns from the enclosing function if the result of `expression` is an error.
#define STEPCAST_TRY(...)                                       \
  do {                                                          \
    if (auto attempt = (__VA_ARGS__); !attempt) {               \
      return ::tl::make_unexpected(std::move(attempt).error()); \
    }                                                           \
  } while (false)

// Declares or assigns `target` from the value of an expression's result, or returns from the
// enclosing function if the result is an error: STEPCAST_TAKE(const int size, SizeOf(file));
#define STEPCAST_TAKE(target, ...) \
  STEPCAST_TAKE_AS(STEPCAST_JOIN(attempt_, __LINE__), target, (__VA_ARGS__))
#define STEPCAST_TAKE_AS(attempt, target, expression)                     \
  auto attempt = expression;                                              \
  if (!attempt) return ::tl::make_unexpected(std::move(attempt).error()); \
  target = *std::move(attempt)
#define STEPCAST_JOIN(name, line) STEPCAST_JOIN_EXPANDED(name, line)
#define STEPCAST_JOIN_EXPANDED(name, line) name##line
