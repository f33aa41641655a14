//! What `join` and `select` take: functions that each get a context of their own.

use crate::{Error, TaskContext};
use longhaul_core::BoxFuture;

/// A branch that has not started.
pub(super) type Branch<'a, T> = Box<dyn FnOnce(TaskContext) -> BoxFuture<'a, T> + Send + 'a>;

/// The futures of up to four branches; `()` where there is none, and one type for all branches of an iterator.
///
/// The implementations do not ask for `Send`; `join` and `select` do. So the compiler names the value that is not, and where it is held.
pub trait BranchFutures<'a, Shape> {
    /// That of the first branch, or of each of an iterator.
    type First;
    /// That of the second.
    type Second;
    /// That of the third.
    type Third;
    /// That of the fourth.
    type Fourth;
}

/// What [`join`](TaskContext::join) takes: an iterator of async functions of a [`TaskContext`], or a tuple of two to four different ones.
/// `Shape` tells the two apart and is always inferred.
#[diagnostic::on_unimplemented(
    message = "these branches cannot be joined",
    note = "they are an iterator of `FnOnce(TaskContext) -> Future`, or a tuple of two to four of those",
    note = "their results are `Send`; in a closure, write the type of the parameter out: `|cx: TaskContext|`"
)]
pub trait JoinBranches<'a, Shape>: BranchFutures<'a, Shape> + Sized {
    /// What one branch returns.
    type Each: Send + 'a;
    /// What all return: a vector or a tuple, in their order.
    type All: Send + 'a;

    #[doc(hidden)]
    fn split(self, _: Sealed) -> Vec<Branch<'a, Self::Each>>
    where
        Self::First: Send,
        Self::Second: Send,
        Self::Third: Send,
        Self::Fourth: Send;

    #[doc(hidden)]
    fn gather(each: Vec<Self::Each>) -> Option<Self::All>;
}

/// What [`all`](super::Join::all) takes: as [`JoinBranches`], and all branches return a `Result`.
#[diagnostic::on_unimplemented(
    message = "not all of these branches return a `Result`",
    note = "`all()` returns what is inside if all are `Ok`, and the first error otherwise; leave it out to get what each branch returns"
)]
pub trait TryJoinBranches<'a, Shape>: BranchFutures<'a, Shape> + Sized {
    /// What one branch returns inside `Ok`.
    type Each: Send + 'a;
    /// What all return: a vector or a tuple, in their order.
    type All: Send + 'a;

    #[doc(hidden)]
    fn split(self, _: Sealed) -> Vec<Branch<'a, Result<Self::Each, Error>>>
    where
        Self::First: Send,
        Self::Second: Send,
        Self::Third: Send,
        Self::Fourth: Send;

    #[doc(hidden)]
    fn gather(each: Vec<Self::Each>) -> Option<Self::All>;
}

/// What [`select`](TaskContext::select) takes: an iterator of async functions of a [`TaskContext`], or a tuple of two to four different
/// ones, all with a result of the same type.
#[diagnostic::on_unimplemented(
    message = "these branches cannot be selected from",
    note = "they are an iterator of `FnOnce(TaskContext) -> Future`, or a tuple of two to four of those, all of the same output",
    note = "their results are `Send`; in a closure, write the type of the parameter out: `|cx: TaskContext|`"
)]
pub trait SelectBranches<'a, Shape>: BranchFutures<'a, Shape> + Sized {
    /// What each branch returns.
    type Output: Send + 'a;

    #[doc(hidden)]
    fn split(self, _: Sealed) -> Vec<Branch<'a, Self::Output>>
    where
        Self::First: Send,
        Self::Second: Send,
        Self::Third: Send,
        Self::Fourth: Send;
}

/// An argument that no other crate can name: so no other crate can implement the traits of this module.
pub struct Sealed;

/// Marks iterators.
pub struct Many;
/// Marks tuples.
pub struct Tuple;

fn branch<'a, F, W, T, U>(run: F, finish: impl FnOnce(T) -> U + Send + 'a) -> Branch<'a, U>
where
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = T> + Send + 'a,
{
    Box::new(move |cx| {
        let run = run(cx);
        Box::pin(async move { finish(run.await) })
    })
}

impl<'a, I, F, W> BranchFutures<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W,
    W: Future + 'a,
{
    type First = W;
    type Second = ();
    type Third = ();
    type Fourth = ();
}

impl<'a, I, F, W, T> JoinBranches<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = T> + 'a,
    T: Send + 'a,
{
    type Each = T;
    type All = Vec<T>;

    fn split(self, _: Sealed) -> Vec<Branch<'a, T>>
    where
        W: Send,
    {
        self.into_iter().map(|run| branch(run, |output| output)).collect()
    }

    fn gather(each: Vec<T>) -> Option<Vec<T>> {
        Some(each)
    }
}

impl<'a, I, F, W, T, E> TryJoinBranches<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = Result<T, E>> + 'a,
    T: Send + 'a,
    E: Into<Error> + 'a,
{
    type Each = T;
    type All = Vec<T>;

    fn split(self, _: Sealed) -> Vec<Branch<'a, Result<T, Error>>>
    where
        W: Send,
    {
        let branches = self.into_iter();
        branches
            .map(|run| branch(run, |output: Result<T, E>| output.map_err(Into::into)))
            .collect()
    }

    fn gather(each: Vec<T>) -> Option<Vec<T>> {
        Some(each)
    }
}

impl<'a, I, F, W, T> SelectBranches<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = T> + 'a,
    T: Send + 'a,
{
    type Output = T;

    fn split(self, _: Sealed) -> Vec<Branch<'a, T>>
    where
        W: Send,
    {
        self.into_iter().map(|run| branch(run, |output| output)).collect()
    }
}

/// Each branch of a tuple returns a tuple in which only its own element is set.
macro_rules! tuples {
    ($(($($run:ident $work:ident $output:ident $error:ident $index:tt $future:ident),*) $($none:ident)*;)*) => {$(
        impl<'a, $($run, $work),*> BranchFutures<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work,
            $work: Future + 'a,)*
        {
            $(type $future = $work;)*
            $(type $none = ();)*
        }

        impl<'a, $($run, $work, $output),*> JoinBranches<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = $output> + 'a,
            $output: Send + 'a,)*
        {
            type Each = ($(Option<$output>,)*);
            type All = ($($output,)*);

            fn split(self, _: Sealed) -> Vec<Branch<'a, Self::Each>>
            where
                $($work: Send,)*
            {
                vec![$(branch(self.$index, |output| {
                    let mut outputs = Self::Each::default();
                    outputs.$index = Some(output);
                    outputs
                })),*]
            }

            fn gather(mut each: Vec<Self::Each>) -> Option<Self::All> {
                Some(($(each.get_mut($index)?.$index.take()?,)*))
            }
        }

        impl<'a, $($run, $work, $output, $error),*> TryJoinBranches<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = Result<$output, $error>> + 'a,
            $output: Send + 'a,
            $error: Into<Error> + 'a,)*
        {
            type Each = ($(Option<$output>,)*);
            type All = ($($output,)*);

            fn split(self, _: Sealed) -> Vec<Branch<'a, Result<Self::Each, Error>>>
            where
                $($work: Send,)*
            {
                vec![$(branch(self.$index, |output: Result<$output, $error>| {
                    let mut outputs = Self::Each::default();
                    outputs.$index = Some(output.map_err(Into::into)?);
                    Ok(outputs)
                })),*]
            }

            fn gather(mut each: Vec<Self::Each>) -> Option<Self::All> {
                Some(($(each.get_mut($index)?.$index.take()?,)*))
            }
        }

        impl<'a, Out: Send + 'a, $($run, $work),*> SelectBranches<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = Out> + 'a,)*
        {
            type Output = Out;

            fn split(self, _: Sealed) -> Vec<Branch<'a, Out>>
            where
                $($work: Send,)*
            {
                vec![$(branch(self.$index, |output| output)),*]
            }
        }
    )*};
}

tuples! {
    (A WA TA EA 0 First, B WB TB EB 1 Second) Third Fourth;
    (A WA TA EA 0 First, B WB TB EB 1 Second, C WC TC EC 2 Third) Fourth;
    (A WA TA EA 0 First, B WB TB EB 1 Second, C WC TC EC 2 Third, D WD TD ED 3 Fourth);
}
