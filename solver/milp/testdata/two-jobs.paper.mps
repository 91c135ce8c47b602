* elastalloc, formulation paper
* Names end in job, step and nodes; jobs and steps count from 1.
* The objective is minimized: minus the training progress, divided by 0.001
NAME elastalloc
ROWS
* (obj) max sum_i sum_t w_i s_i^t / d_i
 N progress
* (< total nodes) sum_i n_i^t <= N
 L pool_1
 L pool_2
* (delta -), left: (1 - delta-)/M - M delta- <= n - k
 G minus_low_1_1_1
 G minus_low_1_1_2
 G minus_low_1_2_1
 G minus_low_1_2_2
 G minus_low_2_1_0
 G minus_low_2_1_1
 G minus_low_2_1_2
 G minus_low_2_1_4
 G minus_low_2_2_0
 G minus_low_2_2_1
 G minus_low_2_2_2
 G minus_low_2_2_4
* (delta -), right: n - k <= M (1 - delta-)
 L minus_high_1_1_1
 L minus_high_1_1_2
 L minus_high_1_2_1
 L minus_high_1_2_2
 L minus_high_2_1_0
 L minus_high_2_1_1
 L minus_high_2_1_2
 L minus_high_2_1_4
 L minus_high_2_2_0
 L minus_high_2_2_1
 L minus_high_2_2_2
 L minus_high_2_2_4
* (delta +), left: (1 - delta+)/M - M delta+ <= k - n
 G plus_low_1_1_1
 G plus_low_1_1_2
 G plus_low_1_2_1
 G plus_low_1_2_2
 G plus_low_2_1_0
 G plus_low_2_1_1
 G plus_low_2_1_2
 G plus_low_2_1_4
 G plus_low_2_2_0
 G plus_low_2_2_1
 G plus_low_2_2_2
 G plus_low_2_2_4
* (delta +), right: k - n <= M (1 - delta+)
 L plus_high_1_1_1
 L plus_high_1_1_2
 L plus_high_1_2_1
 L plus_high_1_2_2
 L plus_high_2_1_0
 L plus_high_2_1_1
 L plus_high_2_1_2
 L plus_high_2_1_4
 L plus_high_2_2_0
 L plus_high_2_2_1
 L plus_high_2_2_2
 L plus_high_2_2_4
* (exactly hold) sum_k delta- + sum_k delta+ = |K| + 1
 E hold_1_1
 E hold_1_2
 E hold_2_1
 E hold_2_2
* (linear 1) s^1 <= p sum_k speed(k) (delta- + delta+ - 1), after resize_delay
 L first_1_1
 L first_2_1
* (linear 2) s^t <= s^(t-1) + p sum_k speed(k) (delta- + delta+ - 1)
 L later_1_2
 L later_2_2
COLUMNS
 integers 'MARKER' 'INTORG'
 n_1_1 pool_1 1
 n_1_1 minus_low_1_1_1 1
 n_1_1 minus_low_1_1_2 1
 n_1_1 minus_high_1_1_1 1
 n_1_1 minus_high_1_1_2 1
 n_1_1 plus_low_1_1_1 -1
 n_1_1 plus_low_1_1_2 -1
 n_1_1 plus_high_1_1_1 -1
 n_1_1 plus_high_1_1_2 -1
 n_1_2 pool_2 1
 n_1_2 minus_low_1_2_1 1
 n_1_2 minus_low_1_2_2 1
 n_1_2 minus_high_1_2_1 1
 n_1_2 minus_high_1_2_2 1
 n_1_2 plus_low_1_2_1 -1
 n_1_2 plus_low_1_2_2 -1
 n_1_2 plus_high_1_2_1 -1
 n_1_2 plus_high_1_2_2 -1
 n_2_1 pool_1 1
 n_2_1 minus_low_2_1_0 1
 n_2_1 minus_low_2_1_1 1
 n_2_1 minus_low_2_1_2 1
 n_2_1 minus_low_2_1_4 1
 n_2_1 minus_high_2_1_0 1
 n_2_1 minus_high_2_1_1 1
 n_2_1 minus_high_2_1_2 1
 n_2_1 minus_high_2_1_4 1
 n_2_1 plus_low_2_1_0 -1
 n_2_1 plus_low_2_1_1 -1
 n_2_1 plus_low_2_1_2 -1
 n_2_1 plus_low_2_1_4 -1
 n_2_1 plus_high_2_1_0 -1
 n_2_1 plus_high_2_1_1 -1
 n_2_1 plus_high_2_1_2 -1
 n_2_1 plus_high_2_1_4 -1
 n_2_2 pool_2 1
 n_2_2 minus_low_2_2_0 1
 n_2_2 minus_low_2_2_1 1
 n_2_2 minus_low_2_2_2 1
 n_2_2 minus_low_2_2_4 1
 n_2_2 minus_high_2_2_0 1
 n_2_2 minus_high_2_2_1 1
 n_2_2 minus_high_2_2_2 1
 n_2_2 minus_high_2_2_4 1
 n_2_2 plus_low_2_2_0 -1
 n_2_2 plus_low_2_2_1 -1
 n_2_2 plus_low_2_2_2 -1
 n_2_2 plus_low_2_2_4 -1
 n_2_2 plus_high_2_2_0 -1
 n_2_2 plus_high_2_2_1 -1
 n_2_2 plus_high_2_2_2 -1
 n_2_2 plus_high_2_2_4 -1
 dm_1_1_1 minus_low_1_1_1 2
 dm_1_1_1 minus_high_1_1_1 1
 dm_1_1_1 hold_1_1 1
 dm_1_1_1 first_1_1 -1
 dm_1_1_2 minus_low_1_1_2 2
 dm_1_1_2 minus_high_1_1_2 1
 dm_1_1_2 hold_1_1 1
 dm_1_1_2 first_1_1 -1.6
 dm_1_2_1 minus_low_1_2_1 2
 dm_1_2_1 minus_high_1_2_1 1
 dm_1_2_1 hold_1_2 1
 dm_1_2_1 later_1_2 -1
 dm_1_2_2 minus_low_1_2_2 2
 dm_1_2_2 minus_high_1_2_2 1
 dm_1_2_2 hold_1_2 1
 dm_1_2_2 later_1_2 -1.6
 dm_2_1_0 minus_low_2_1_0 4.25
 dm_2_1_0 minus_high_2_1_0 4
 dm_2_1_0 hold_2_1 1
 dm_2_1_1 minus_low_2_1_1 4.25
 dm_2_1_1 minus_high_2_1_1 4
 dm_2_1_1 hold_2_1 1
 dm_2_1_1 first_2_1 -0.9
 dm_2_1_2 minus_low_2_1_2 4.25
 dm_2_1_2 minus_high_2_1_2 4
 dm_2_1_2 hold_2_1 1
 dm_2_1_2 first_2_1 -1.44
 dm_2_1_4 minus_low_2_1_4 4.25
 dm_2_1_4 minus_high_2_1_4 4
 dm_2_1_4 hold_2_1 1
 dm_2_1_4 first_2_1 -2.3040000000000007
 dm_2_2_0 minus_low_2_2_0 4.25
 dm_2_2_0 minus_high_2_2_0 4
 dm_2_2_0 hold_2_2 1
 dm_2_2_1 minus_low_2_2_1 4.25
 dm_2_2_1 minus_high_2_2_1 4
 dm_2_2_1 hold_2_2 1
 dm_2_2_1 later_2_2 -1
 dm_2_2_2 minus_low_2_2_2 4.25
 dm_2_2_2 minus_high_2_2_2 4
 dm_2_2_2 hold_2_2 1
 dm_2_2_2 later_2_2 -1.6
 dm_2_2_4 minus_low_2_2_4 4.25
 dm_2_2_4 minus_high_2_2_4 4
 dm_2_2_4 hold_2_2 1
 dm_2_2_4 later_2_2 -2.5600000000000005
 dp_1_1_1 plus_low_1_1_1 2
 dp_1_1_1 plus_high_1_1_1 1
 dp_1_1_1 hold_1_1 1
 dp_1_1_1 first_1_1 -1
 dp_1_1_2 plus_low_1_1_2 2
 dp_1_1_2 plus_high_1_1_2 1
 dp_1_1_2 hold_1_1 1
 dp_1_1_2 first_1_1 -1.6
 dp_1_2_1 plus_low_1_2_1 2
 dp_1_2_1 plus_high_1_2_1 1
 dp_1_2_1 hold_1_2 1
 dp_1_2_1 later_1_2 -1
 dp_1_2_2 plus_low_1_2_2 2
 dp_1_2_2 plus_high_1_2_2 1
 dp_1_2_2 hold_1_2 1
 dp_1_2_2 later_1_2 -1.6
 dp_2_1_0 plus_low_2_1_0 4.25
 dp_2_1_0 plus_high_2_1_0 4
 dp_2_1_0 hold_2_1 1
 dp_2_1_1 plus_low_2_1_1 4.25
 dp_2_1_1 plus_high_2_1_1 4
 dp_2_1_1 hold_2_1 1
 dp_2_1_1 first_2_1 -0.9
 dp_2_1_2 plus_low_2_1_2 4.25
 dp_2_1_2 plus_high_2_1_2 4
 dp_2_1_2 hold_2_1 1
 dp_2_1_2 first_2_1 -1.44
 dp_2_1_4 plus_low_2_1_4 4.25
 dp_2_1_4 plus_high_2_1_4 4
 dp_2_1_4 hold_2_1 1
 dp_2_1_4 first_2_1 -2.3040000000000007
 dp_2_2_0 plus_low_2_2_0 4.25
 dp_2_2_0 plus_high_2_2_0 4
 dp_2_2_0 hold_2_2 1
 dp_2_2_1 plus_low_2_2_1 4.25
 dp_2_2_1 plus_high_2_2_1 4
 dp_2_2_1 hold_2_2 1
 dp_2_2_1 later_2_2 -1
 dp_2_2_2 plus_low_2_2_2 4.25
 dp_2_2_2 plus_high_2_2_2 4
 dp_2_2_2 hold_2_2 1
 dp_2_2_2 later_2_2 -1.6
 dp_2_2_4 plus_low_2_2_4 4.25
 dp_2_2_4 plus_high_2_2_4 4
 dp_2_2_4 hold_2_2 1
 dp_2_2_4 later_2_2 -2.5600000000000005
 integers 'MARKER' 'INTEND'
 s_1_1 progress -1000
 s_1_1 first_1_1 1
 s_1_1 later_1_2 -1
 s_1_2 progress -1000
 s_1_2 later_1_2 1
 s_2_1 progress -83.33333333333333
 s_2_1 first_2_1 1
 s_2_1 later_2_2 -1
 s_2_2 progress -83.33333333333333
 s_2_2 later_2_2 1
RHS
 rhs pool_1 4
 rhs pool_2 4
 rhs minus_low_1_1_1 2
 rhs minus_low_1_1_2 3
 rhs minus_low_1_2_1 2
 rhs minus_low_1_2_2 3
 rhs minus_low_2_1_0 0.25
 rhs minus_low_2_1_1 1.25
 rhs minus_low_2_1_2 2.25
 rhs minus_low_2_1_4 4.25
 rhs minus_low_2_2_0 0.25
 rhs minus_low_2_2_1 1.25
 rhs minus_low_2_2_2 2.25
 rhs minus_low_2_2_4 4.25
 rhs minus_high_1_1_1 2
 rhs minus_high_1_1_2 3
 rhs minus_high_1_2_1 2
 rhs minus_high_1_2_2 3
 rhs minus_high_2_1_0 4
 rhs minus_high_2_1_1 5
 rhs minus_high_2_1_2 6
 rhs minus_high_2_1_4 8
 rhs minus_high_2_2_0 4
 rhs minus_high_2_2_1 5
 rhs minus_high_2_2_2 6
 rhs minus_high_2_2_4 8
 rhs plus_low_1_1_2 -1
 rhs plus_low_1_2_2 -1
 rhs plus_low_2_1_0 0.25
 rhs plus_low_2_1_1 -0.75
 rhs plus_low_2_1_2 -1.75
 rhs plus_low_2_1_4 -3.75
 rhs plus_low_2_2_0 0.25
 rhs plus_low_2_2_1 -0.75
 rhs plus_low_2_2_2 -1.75
 rhs plus_low_2_2_4 -3.75
 rhs plus_high_1_1_2 -1
 rhs plus_high_1_2_2 -1
 rhs plus_high_2_1_0 4
 rhs plus_high_2_1_1 3
 rhs plus_high_2_1_2 2
 rhs plus_high_2_2_0 4
 rhs plus_high_2_2_1 3
 rhs plus_high_2_2_2 2
 rhs hold_1_1 3
 rhs hold_1_2 3
 rhs hold_2_1 5
 rhs hold_2_2 5
 rhs first_1_1 -2.6
 rhs first_2_1 -4.644
 rhs later_1_2 -2.6
 rhs later_2_2 -5.16
BOUNDS
 LO bound n_1_1 1
 UP bound n_1_1 2
 LO bound n_1_2 1
 UP bound n_1_2 2
 LO bound n_2_1 0
 UP bound n_2_1 4
 LO bound n_2_2 0
 UP bound n_2_2 4
 BV bound dm_1_1_1
 BV bound dm_1_1_2
 BV bound dm_1_2_1
 BV bound dm_1_2_2
 BV bound dm_2_1_0
 BV bound dm_2_1_1
 BV bound dm_2_1_2
 BV bound dm_2_1_4
 BV bound dm_2_2_0
 BV bound dm_2_2_1
 BV bound dm_2_2_2
 BV bound dm_2_2_4
 BV bound dp_1_1_1
 BV bound dp_1_1_2
 BV bound dp_1_2_1
 BV bound dp_1_2_2
 BV bound dp_2_1_0
 BV bound dp_2_1_1
 BV bound dp_2_1_2
 BV bound dp_2_1_4
 BV bound dp_2_2_0
 BV bound dp_2_2_1
 BV bound dp_2_2_2
 BV bound dp_2_2_4
 LO bound s_1_1 0
 UP bound s_1_1 2
 LO bound s_1_2 0
 UP bound s_1_2 2
 LO bound s_2_1 0
 UP bound s_2_1 12
 LO bound s_2_2 0
 UP bound s_2_2 12
ENDATA
