#pragma once

#include <cstdio>
#include <cstdlib>

// STEPCAST_CHECK(condition, "the rule") ends the process if an invariant of the program is
// violated. A violation is always a bug, never a user's mistake (for mistakes, see diagnostic.h).
// Optimized builds also check, so do not use the macro in innermost loops.
#define STEPCAST_CHECK(condition, message)                                                  \
  do {                                                                                      \
    if (!(condition)) {                                                                     \
      std::fprintf(stderr, "%s:%d: internal error: %s (%s)\n", __FILE__, __LINE__, message, \
                   #condition);                                                             \
      std::abort();                                                                         \
    }                                                                                       \
  } while (false)
