//! A typed expression as a tree: every operand has the kind that its operator computes with.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;

use super::cast::convert;
use super::compare::Comparison;
use super::functions::Function;
use super::kind::Kind;
use super::values::Values;

#[derive(Debug, Clone)]
pub(super) enum Node {
    /// A place in the dataset's schema.
    Column(usize),
    /// A member of a column of structures, or of a member of it: its place in each.
    Member {
        place: usize,
        inside: Vec<usize>,
    },
    /// An array of one value.
    Literal(ArrayRef),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    IsNull(Box<Node>),
    Compare {
        op: Comparison,
        left: Box<Node>,
        right: Box<Node>,
    },
    In {
        value: Box<Node>,
        set: Set,
    },
    Like {
        value: Box<Node>,
        pattern: Box<Node>,
        ignores_case: bool,
    },
    Arithmetic {
        op: Arithmetic,
        left: Box<Node>,
        right: Box<Node>,
    },
    Negate(Box<Node>),
    /// To a kind that all values have, or NULL.
    Convert {
        value: Box<Node>,
        to: Kind,
    },
    Cast {
        value: Box<Node>,
        to: DataType,
        /// What stands in the brackets of a CAST that refuses values; without, they become NULL.
        strict: Option<Arc<str>>,
    },
    /// Conditions and what they give, all of one kind.
    Case {
        whens: Vec<(Node, Node)>,
        otherwise: Box<Node>,
    },
    Call {
        function: Function,
        arguments: Vec<Node>,
    },
}

/// The values of an IN, none of them NULL.
#[derive(Debug, Clone)]
pub(super) enum Set {
    Whole(HashSet<i128>),
    Text(HashSet<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

/// An expression and what it gives.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) node: Node,
    pub(super) kind: Kind,
    /// The type of a CAST that is outermost.
    pub(super) cast: Option<DataType>,
}

impl Typed {
    pub(super) fn new(node: Node, kind: Kind) -> Self {
        Self { node, kind, cast: None }
    }

    pub(super) fn cast(value: Self, to: DataType, kind: Kind, strict: Option<Arc<str>>) -> Self {
        let node = Node::Cast { value: Box::new(value.node), to: to.clone(), strict };
        Self { node, kind, cast: Some(to) }
    }

    /// The type of a column of it: that of the outermost CAST, else the kind's own.
    pub(super) fn data_type(&self) -> Option<DataType> {
        self.cast.clone().or_else(|| self.kind.data_type())
    }

    /// Its values as those of a kind that it has in common.
    pub(super) fn into(self, kind: &Kind) -> Node {
        // Columns of timestamps differ in their units.
        if self.kind == *kind && *kind != Kind::Timestamp {
            return self.node;
        }
        let node = match self.node {
            Node::Literal(value) => {
                match convert(&Values { array: ArrayRef::clone(&value), is_scalar: true }, kind) {
                    Ok(converted) => return Node::Literal(converted.array),
                    Err(_) => Node::Literal(value),
                }
            }
            node => node,
        };
        Node::Convert { value: Box::new(node), to: kind.clone() }
    }
}

impl Node {
    pub(super) fn visit_columns(&self, visit: &mut impl FnMut(usize)) {
        self.visit(&mut |node| {
            if let Self::Column(place) | Self::Member { place, .. } = node {
                visit(*place);
            }
        });
    }

    /// Whether a row's values may be refused.
    pub(super) fn may_refuse(&self) -> bool {
        let mut may_refuse = false;
        self.visit(&mut |node| may_refuse |= matches!(node, Self::Cast { strict: Some(_), .. }));
        may_refuse
    }

    fn visit(&self, visit: &mut impl FnMut(&Self)) {
        visit(self);
        match self {
            Self::Column(_) | Self::Member { .. } | Self::Literal(_) => {}
            Self::Not(node) | Self::IsNull(node) | Self::Negate(node) => node.visit(visit),
            Self::Convert { value, .. } | Self::Cast { value, .. } | Self::In { value, .. } => {
                value.visit(visit);
            }
            Self::And(nodes) | Self::Or(nodes) | Self::Call { arguments: nodes, .. } => {
                nodes.iter().for_each(|node| node.visit(visit));
            }
            Self::Compare { left, right, .. }
            | Self::Arithmetic { left, right, .. }
            | Self::Like { value: left, pattern: right, .. } => {
                left.visit(visit);
                right.visit(visit);
            }
            Self::Case { whens, otherwise } => {
                for (condition, result) in whens {
                    condition.visit(visit);
                    result.visit(visit);
                }
                otherwise.visit(visit);
            }
        }
    }

    pub(super) fn is_constant(&self) -> bool {
        let mut is_constant = true;
        self.visit_columns(&mut |_| is_constant = false);
        is_constant
    }
}

impl std::fmt::Display for Arithmetic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        })
    }
}
