/* SPDX-License-Identifier: GPL-2.0 OR MIT
 *
 * Sums that user space takes out of a map while programs add to them. A sum's key has the turn in
 * which it began. User space changes the turn, waits until no program runs that has read the former
 * one, and takes out the sums before it: nothing adds to them any longer (loader.Drain).
 */
#ifndef USTACK_TURN_H
#define USTACK_TURN_H

volatile u32 turn = 0; /* counts up; a key has its lower half */

#endif
