// Package figures draws what simulations found, as SVG and PNG: times and
// additional jobs over the size of the pool, and how long decisions took. Series
// differ in colour, in the shape of their marks and in the dashes of their lines,
// so that they can be told apart without colour; the colours are those of Okabe and
// Ito, which people with any colour vision can tell apart.
package figures
