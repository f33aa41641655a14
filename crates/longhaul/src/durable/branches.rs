//! What can run beside each other: functions that are each given a context of their own.

use crate::{Error, TaskContext};
use longhaul_core::BoxFuture;

/// A branch that has not begun.
pub(super) type Branch<'a, T> = Box<dyn FnOnce(TaskContext) -> BoxFuture<'a, T> + Send + 'a>;

/// Branches that all are waited for: an iterator of async functions of a [`TaskContext`], or a tuple of two to four different ones.
/// `Shape` tells the two apart and is never written out.
#[diagnostic::on_unimplemented(
    message = "these are no branches to join",
    note = "they are an iterator of `FnOnce(TaskContext) -> Future`, or a tuple of two to four of those",
    note = "their futures and results are `Send`; in a closure, write the type of the parameter out: `|cx: TaskContext|`"
)]
pub trait Joining<'a, Shape>: Sized {
    /// What one of them gives.
    type Each: Send + 'a;
    /// What they give together: a vector or a tuple, in their order.
    type All: Send + 'a;

    #[doc(hidden)]
    fn split(self) -> Vec<Branch<'a, Self::Each>>;

    #[doc(hidden)]
    fn gather(each: Vec<Self::Each>) -> Option<Self::All>;
}

/// As [`Joining`], for branches that may fail.
#[diagnostic::on_unimplemented(
    message = "not all of these branches give a `Result`",
    note = "`all()` gives what is inside if all are `Ok`, and the first error otherwise; leave it out to be given what each of them returns"
)]
pub trait TryJoining<'a, Shape>: Sized {
    /// What one of them gives if it does not fail.
    type Each: Send + 'a;
    /// What they give together: a vector or a tuple, in their order.
    type All: Send + 'a;

    #[doc(hidden)]
    fn split(self) -> Vec<Branch<'a, Result<Self::Each, Error>>>;

    #[doc(hidden)]
    fn gather(each: Vec<Self::Each>) -> Option<Self::All>;
}

/// Branches of which the first to end counts: an iterator of async functions of a [`TaskContext`], or a tuple of two to four different
/// ones, all with a result of the same type.
#[diagnostic::on_unimplemented(
    message = "these are no branches to select from",
    note = "they are an iterator of `FnOnce(TaskContext) -> Future`, or a tuple of two to four of those, all of the same output",
    note = "their futures and results are `Send`; in a closure, write the type of the parameter out: `|cx: TaskContext|`"
)]
pub trait Racing<'a, Shape>: Sized {
    /// What each of them gives.
    type Output: Send + 'a;

    #[doc(hidden)]
    fn split(self) -> Vec<Branch<'a, Self::Output>>;
}

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

impl<'a, I, F, W, T> Joining<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = T> + Send + 'a,
    T: Send + 'a,
{
    type Each = T;
    type All = Vec<T>;

    fn split(self) -> Vec<Branch<'a, T>> {
        self.into_iter().map(|run| branch(run, |output| output)).collect()
    }

    fn gather(each: Vec<T>) -> Option<Vec<T>> {
        Some(each)
    }
}

impl<'a, I, F, W, T, E> TryJoining<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = Result<T, E>> + Send + 'a,
    T: Send + 'a,
    E: Into<Error> + 'a,
{
    type Each = T;
    type All = Vec<T>;

    fn split(self) -> Vec<Branch<'a, Result<T, Error>>> {
        let branches = self.into_iter();
        branches
            .map(|run| branch(run, |output: Result<T, E>| output.map_err(Into::into)))
            .collect()
    }

    fn gather(each: Vec<T>) -> Option<Vec<T>> {
        Some(each)
    }
}

impl<'a, I, F, W, T> Racing<'a, Many> for I
where
    I: IntoIterator<Item = F>,
    F: FnOnce(TaskContext) -> W + Send + 'a,
    W: Future<Output = T> + Send + 'a,
    T: Send + 'a,
{
    type Output = T;

    fn split(self) -> Vec<Branch<'a, T>> {
        self.into_iter().map(|run| branch(run, |output| output)).collect()
    }
}

/// Each branch of a tuple gives a tuple with only its own place filled.
macro_rules! tuples {
    ($(($($run:ident $work:ident $output:ident $error:ident $place:tt),*);)*) => {$(
        impl<'a, $($run, $work, $output),*> Joining<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = $output> + Send + 'a,
            $output: Send + 'a,)*
        {
            type Each = ($(Option<$output>,)*);
            type All = ($($output,)*);

            fn split(self) -> Vec<Branch<'a, Self::Each>> {
                vec![$(branch(self.$place, |output| {
                    let mut places = Self::Each::default();
                    places.$place = Some(output);
                    places
                })),*]
            }

            fn gather(mut each: Vec<Self::Each>) -> Option<Self::All> {
                Some(($(each.get_mut($place)?.$place.take()?,)*))
            }
        }

        impl<'a, $($run, $work, $output, $error),*> TryJoining<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = Result<$output, $error>> + Send + 'a,
            $output: Send + 'a,
            $error: Into<Error> + 'a,)*
        {
            type Each = ($(Option<$output>,)*);
            type All = ($($output,)*);

            fn split(self) -> Vec<Branch<'a, Result<Self::Each, Error>>> {
                vec![$(branch(self.$place, |output: Result<$output, $error>| {
                    let mut places = Self::Each::default();
                    places.$place = Some(output.map_err(Into::into)?);
                    Ok(places)
                })),*]
            }

            fn gather(mut each: Vec<Self::Each>) -> Option<Self::All> {
                Some(($(each.get_mut($place)?.$place.take()?,)*))
            }
        }

        impl<'a, Out: Send + 'a, $($run, $work),*> Racing<'a, Tuple> for ($($run,)*)
        where
            $($run: FnOnce(TaskContext) -> $work + Send + 'a,
            $work: Future<Output = Out> + Send + 'a,)*
        {
            type Output = Out;

            fn split(self) -> Vec<Branch<'a, Out>> {
                vec![$(branch(self.$place, |output| output)),*]
            }
        }
    )*};
}

tuples! {
    (A WA TA EA 0, B WB TB EB 1);
    (A WA TA EA 0, B WB TB EB 1, C WC TC EC 2);
    (A WA TA EA 0, B WB TB EB 1, C WC TC EC 2, D WD TD ED 3);
}
