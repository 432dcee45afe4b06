// SPDX-License-Identifier: Apache-2.0
// The module kerf._core: a few functions whose arguments and results are texts, JSON and arrays. The classes that users
// see are in python/kerf.
#include "Calls.h"

NB_MODULE(_core, module) {
  module.doc() = "The compiled part of the package kerf. Use the names of kerf itself.";
  kerf::python::registerErrors();
  kerf::python::addQuestions(module);
  kerf::python::addTraining(module);
  kerf::python::addCommandLines(module);
}
