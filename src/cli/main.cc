#include "src/cli/process.h"

int main(int count, char** words) {
  return stepcast::cli::RunProcess(count, words, {.hardware = stepcast::cli::HandedOver});
}
