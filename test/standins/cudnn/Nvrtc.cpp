// SPDX-License-Identifier: Apache-2.0
// The stand-in for NVIDIA's run-time compiler. Kerf only asks whether the library can be loaded.
extern "C" __attribute__((visibility("default"))) int nvrtcVersion(int *major, int *minor) {
  *major = 13, *minor = 0;
  return 0;
}
