// SPDX-License-Identifier: Apache-2.0
// What the devices are: name, capacity, compute capability, a hash of the UUID.
#ifndef CT_DEVICE_INFO_H
#define CT_DEVICE_INFO_H

// Publishes what a device is (INFO device.N.*), the first time that the device is seen outside of a
// stream capture. Any thread at any time.
void ct_device_info_publish(int device);

#endif
