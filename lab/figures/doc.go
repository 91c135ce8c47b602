// Package figures draws what simulations found, as SVG and PNG: times and
// additional jobs over the size of the pool, and how long decisions took. Series
// differ in colour, in the shape of their marks and in the dashes of their lines,
// so that they differ without colour as well; the colours are those of Okabe and Ito,
// which are distinct for all kinds of colour vision.
package figures
